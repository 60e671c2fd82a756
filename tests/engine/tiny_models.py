"""Tiny models of transformers' own classes, and what is to be found in them."""

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
    "head_dim": 16,
    "max_position_embeddings": 128,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
MODELS = {
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**TINY, attention_bias=True, mlp_bias=True)),
    "mistral": lambda: tf.MistralForCausalLM(tf.MistralConfig(**TINY, sliding_window=None)),
    "qwen2": lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**TINY)),
    "qwen3": lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**TINY, tie_word_embeddings=True)),
    "gemma3_text": lambda: tf.Gemma3ForCausalLM(tf.Gemma3TextConfig(**TINY)),
    "gemma3": lambda: tf.Gemma3ForConditionalGeneration(
        tf.Gemma3Config(text_config=tf.Gemma3TextConfig(**TINY).to_dict(), vision_config=VISION)
    ),
}


def made(family: str, dtype: torch.dtype = torch.float32) -> tf.PreTrainedModel:
    """Every parameter random, norms and biases too."""
    torch.manual_seed(0)
    model = MODELS[family]()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.to(dtype)


def effective(model: tf.PreTrainedModel) -> dict[str, np.ndarray]:
    """What each module of the text model multiplies by, under our names; norms asked of the module itself."""
    text = getattr(model.model, "language_model", model.model)
    found = {"embedding": text.embed_tokens.weight, "norm": multiplier(text.norm)}
    if model.lm_head.weight is not text.embed_tokens.weight:
        found["head"] = model.lm_head.weight
    for i, layer in enumerate(text.layers):
        attention, mlp = layer.self_attn, layer.mlp
        linears = {name: getattr(attention, f"{name}_proj") for name in "qkvo"}
        linears |= {name: getattr(mlp, f"{name}_proj") for name in ("gate", "up", "down")}
        norms = {name: getattr(attention, name) for name in ("q_norm", "k_norm") if hasattr(attention, name)}
        norms["attention_norm"] = layer.input_layernorm
        if hasattr(layer, "pre_feedforward_layernorm"):
            norms["attention_post_norm"] = layer.post_attention_layernorm
            norms["mlp_norm"] = layer.pre_feedforward_layernorm
            norms["mlp_post_norm"] = layer.post_feedforward_layernorm
        else:
            norms["mlp_norm"] = layer.post_attention_layernorm
        for name, linear in linears.items():
            found[f"layers.{i}.{name}"] = linear.weight
            if linear.bias is not None:
                found[f"layers.{i}.{name}_bias"] = linear.bias
        found |= {f"layers.{i}.{name}": multiplier(norm) for name, norm in norms.items()}
    return {name: values.detach().float().numpy() for name, values in found.items()}


def multiplier(norm: torch.nn.Module) -> torch.Tensor:
    """Of a row of ones, whose norm is one, is left what the norm multiplies by."""
    return norm(torch.ones(len(norm.weight), dtype=torch.float32))


def values(source: WeightSource, name: str) -> np.ndarray:
    tensor = source.tensor(name)
    assert tensor.dtype in (np.float32, np.uint16)
    return from_bf16(tensor) if tensor.dtype == np.uint16 else tensor
