"""Tiny models of transformers' own classes, and what is to be found in them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import transformers as tf

from twophase.engine.bf16 import from_bf16
from twophase.engine.weights import WeightSource

TINY = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
HEADS = {"head_dim": 16}
WIDE = {"head_dim": 24}
OTHER_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
GPT2 = {"vocab_size": 96, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 80, **OTHER_IDS}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
KINDS = {"layer_types": ["sliding_attention", "full_attention"]}
MODELS = {
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**TINY, **HEADS, attention_bias=True, mlp_bias=True)),
    "mistral": lambda: tf.MistralForCausalLM(tf.MistralConfig(**TINY, **HEADS, sliding_window=None)),
    "qwen2": lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**TINY)),
    "qwen3": lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**TINY, **HEADS, tie_word_embeddings=True)),
    "gemma": lambda: tf.GemmaForCausalLM(tf.GemmaConfig(**TINY, **WIDE)),
    "gemma2": lambda: tf.Gemma2ForCausalLM(tf.Gemma2Config(**TINY, **WIDE)),
    "gemma3_text": lambda: tf.Gemma3ForCausalLM(tf.Gemma3TextConfig(**TINY, **HEADS)),
    "gemma3": lambda: tf.Gemma3ForConditionalGeneration(
        tf.Gemma3Config(text_config=tf.Gemma3TextConfig(**TINY, **HEADS).to_dict(), vision_config=VISION)
    ),
    "phi3": lambda: tf.Phi3ForCausalLM(tf.Phi3Config(**TINY, **OTHER_IDS)),
    "gpt2": lambda: tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2)),
    "gpt2 with a head": lambda: tf.GPT2LMHeadModel(tf.GPT2Config(**GPT2, tie_word_embeddings=False)),
    "starcoder2": lambda: tf.Starcoder2ForCausalLM(tf.Starcoder2Config(**TINY)),
    "stablelm": lambda: tf.StableLmForCausalLM(tf.StableLmConfig(**TINY, use_qkv_bias=True)),
    "granite": lambda: tf.GraniteForCausalLM(tf.GraniteConfig(**TINY)),
    "olmo2": lambda: tf.Olmo2ForCausalLM(tf.Olmo2Config(**TINY, **OTHER_IDS)),
    "olmo3": lambda: tf.Olmo3ForCausalLM(tf.Olmo3Config(**TINY, **OTHER_IDS, **KINDS)),
    "mixtral": lambda: tf.MixtralForCausalLM(tf.MixtralConfig(**TINY, **LOCAL, **WIDE)),
    "qwen2_moe": lambda: tf.Qwen2MoeForCausalLM(
        tf.Qwen2MoeConfig(**TINY, **EXPERTS, shared_expert_intermediate_size=48)
    ),
    "qwen3_moe": lambda: tf.Qwen3MoeForCausalLM(tf.Qwen3MoeConfig(**TINY, **EXPERTS, **HEADS)),
    "qwen3_moe, dense first": lambda: tf.Qwen3MoeForCausalLM(
        tf.Qwen3MoeConfig(**TINY, **EXPERTS, **HEADS, mlp_only_layers=[0])
    ),
    "olmoe": lambda: tf.OlmoeForCausalLM(tf.OlmoeConfig(**TINY, num_experts=6, num_experts_per_tok=2)),
    "granitemoe": lambda: tf.GraniteMoeForCausalLM(tf.GraniteMoeConfig(**TINY, **LOCAL)),
    "granitemoeshared": lambda: tf.GraniteMoeSharedForCausalLM(
        tf.GraniteMoeSharedConfig(**TINY, **LOCAL, shared_intermediate_size=48)
    ),
}
MIXTURES = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "granitemoeshared")


def made(family: str, dtype: torch.dtype = torch.float32) -> tf.PreTrainedModel:
    """Every parameter random, norms and biases too."""
    torch.manual_seed(0)
    model = MODELS[family]()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.to(dtype)


def effective(model: tf.PreTrainedModel) -> dict[str, np.ndarray]:
    """What each module of the text model multiplies by, under our names."""
    body = getattr(model, "transformer", None) or getattr(model.model, "language_model", model.model)
    modules = dict(_gpt2(body) if hasattr(body, "wte") else _llama(body))
    found = {}
    for name, module in modules.items():
        if name.endswith("norm"):
            found[name], bias = multiplier(module), getattr(module, "bias", None)
        else:
            found[name], bias = module.weight, getattr(module, "bias", None)
            if isinstance(module, tf.pytorch_utils.Conv1D):
                found[name] = module.weight.T
        if bias is not None:
            found[f"{name}_bias"] = bias
    table = modules["embedding"].weight
    if model.lm_head.weight is not table:
        found["head"] = model.lm_head.weight
    found |= _experts(body)
    return {
        part: values.detach().float().numpy()
        for name, whole in found.items()
        for part, values in _apart(name, whole, model.config.get_text_config())
    }


def _llama(body: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    yield from {"embedding": body.embed_tokens, "norm": body.norm}.items()
    for i, layer in enumerate(body.layers):
        at = f"layers.{i}."
        mlp = getattr(layer, "mlp", None)
        for name in ("q", "k", "v", "o", "qkv"):
            if hasattr(layer.self_attn, f"{name}_proj"):
                yield at + name, getattr(layer.self_attn, f"{name}_proj")
        for name in ("gate", "up", "down", "gate_up"):
            if hasattr(mlp, f"{name}_proj"):
                yield at + name, getattr(mlp, f"{name}_proj")
            if hasattr(getattr(mlp, "shared_expert", None), f"{name}_proj"):
                yield f"{at}shared.{name}", getattr(mlp.shared_expert, f"{name}_proj")
        if hasattr(mlp, "c_fc"):
            yield from {f"{at}up": mlp.c_fc, f"{at}down": mlp.c_proj}.items()
        if hasattr(layer, "shared_mlp"):
            shared = layer.shared_mlp
            yield from {
                f"{at}shared.gate_up": shared.input_linear,
                f"{at}shared.down": shared.output_linear,
            }.items()
        if hasattr(mlp, "shared_expert_gate"):
            yield f"{at}shared_gate", mlp.shared_expert_gate
        yield from ((at + name, norm) for name, norm in _norms(layer).items())


def _norms(layer: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """transformers calls post_attention_layernorm what stands before the MLP, where no other does."""
    found = {
        name: getattr(layer.self_attn, name)
        for name in ("q_norm", "k_norm")
        if hasattr(layer.self_attn, name)
    }
    after = hasattr(layer, "post_feedforward_layernorm")
    found["attention_post_norm" if after else "mlp_norm"] = layer.post_attention_layernorm
    if after:
        found["mlp_post_norm"] = layer.post_feedforward_layernorm
    if hasattr(layer, "input_layernorm"):
        found["attention_norm"] = layer.input_layernorm
    if hasattr(layer, "pre_feedforward_layernorm"):
        found["mlp_norm"] = layer.pre_feedforward_layernorm
    return found


def _gpt2(body: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    yield from {"embedding": body.wte, "positions": body.wpe, "norm": body.ln_f}.items()
    for i, layer in enumerate(body.h):
        modules = {"attention_norm": layer.ln_1, "mlp_norm": layer.ln_2}
        modules |= {"qkv": layer.attn.c_attn, "o": layer.attn.c_proj}
        modules |= {"up": layer.mlp.c_fc, "down": layer.mlp.c_proj}
        yield from ((f"layers.{i}.{name}", module) for name, module in modules.items())


def _experts(body: torch.nn.Module) -> dict[str, torch.Tensor]:
    found = {}
    for i, layer in enumerate(getattr(body, "layers", ())):
        block = getattr(layer, "block_sparse_moe", None) or layer.mlp
        if hasattr(block, "experts"):
            at, experts = f"layers.{i}.", block.experts
            found[f"{at}router"] = (block.gate if hasattr(block, "gate") else block.router).weight
            found[f"{at}experts.gate_up"] = experts.gate_up_proj
            found[f"{at}experts.down"] = experts.down_proj
    return found


def _apart(name: str, whole: torch.Tensor, config: tf.PreTrainedConfig) -> Iterator[tuple[str, torch.Tensor]]:
    """What transformers computes at once and cuts in pieces: queries, keys and values; gate and up."""
    matrix = name.removesuffix("_bias")
    at, suffix = matrix.rpartition("qkv" if matrix.endswith("qkv") else "gate_up")[0], name[len(matrix) :]
    if matrix.endswith("qkv"):
        heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", heads)
        sizes = [each * (config.hidden_size // heads) for each in (heads, kv_heads, kv_heads)]
        pieces = dict(zip("qkv", whole.split(sizes), strict=True))
    elif matrix.endswith("gate_up"):
        pieces = dict(zip(("gate", "up"), whole.chunk(2, dim=max(0, whole.dim() - 2)), strict=True))
    else:
        yield name, whole
        return
    for piece, values in pieces.items():
        yield f"{at}{piece}{suffix}", values


def multiplier(norm: torch.nn.Module) -> torch.Tensor:
    """What a norm multiplies by, of the module itself.

    Of a row of ones and minus ones, whose norm is one and whose mean is none, is left just that.
    """
    row = torch.ones(len(norm.weight), dtype=torch.float32)
    row[::2] = -1
    without_bias = (
        norm(row) - getattr(norm, "bias", None) if getattr(norm, "bias", None) is not None else norm(row)
    )
    return without_bias * row


def values(source: WeightSource, name: str) -> np.ndarray:
    return values_of(source.tensor(name))


def values_of(tensor: np.ndarray) -> np.ndarray:
    assert tensor.dtype in (np.float32, np.uint16)
    return from_bf16(tensor) if tensor.dtype == np.uint16 else tensor
