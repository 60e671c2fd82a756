"""transformers' tiny models as GGUF files, as llama.cpp's converter writes them, by gguf's map of names."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers as tf
from gguf import GGMLQuantizationType as Type
from tiny_gguf import write_gguf

SIDE_BY_SIDE = ("llama", "granite", "granitemoe")  # the converter lays their rotary pairs out so
ARCHITECTURES = {
    **{"llama": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen2_moe": "qwen2moe"},
    **{"qwen3_moe": "qwen3moe", "gemma": "gemma", "gemma2": "gemma2", "gemma3_text": "gemma3"},
    **{"phi3": "phi3", "gpt2": "gpt2", "starcoder2": "starcoder2", "stablelm": "stablelm", "olmo2": "olmo2"},
    **{"granite": "granite", "granitemoe": "granitemoe", "olmoe": "olmoe"},
}


def write_converted(
    path: Path,
    model: tf.PreTrainedModel,
    form: Type = Type.F32,
    split_tensors: int = 0,
    fused_experts: bool = False,
) -> Path:
    """Matrices whose rows are whole blocks of 32 in `form`, the others in F32."""
    architecture = ARCHITECTURES[model.config.model_type]
    content = dict(_tensors(architecture, model))
    if fused_experts:
        for name in [name for name in content if "ffn_gate_exps" in name]:
            halves = [content.pop(each) for each in (name, name.replace("gate", "up"))]
            content[name.replace("gate", "gate_up")] = np.concatenate(halves, axis=1)
    formats = {name: form for name, each in content.items() if each.ndim > 1 and not each.shape[-1] % 32}
    return write_gguf(
        path,
        architecture,
        tensors=content,
        formats=formats,
        split_tensors=split_tensors,
        **_fields(model.config),
    )


def _fields(config: tf.PreTrainedConfig) -> dict[str, Any]:
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    eps = (
        "layer_norm_eps" if config.model_type in ("gpt2", "stablelm", "starcoder2") else "layer_norm_rms_eps"
    )
    fields = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": getattr(config, "intermediate_size", 4 * config.hidden_size),
        "head_count": heads,
        "head_count_kv": getattr(config, "num_key_value_heads", heads),
        "key_length": head_dim,
        "value_length": head_dim,
        eps: 1e-6,
    }
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if experts:
        fields |= {"expert_count": experts, "expert_used_count": config.num_experts_per_tok}
        fields["expert_feed_forward_length"] = getattr(
            config, "moe_intermediate_size", config.intermediate_size
        )
    if shared := getattr(config, "shared_expert_intermediate_size", None):
        fields["expert_shared_feed_forward_length"] = shared
    if config.model_type in ("gemma2", "gemma3_text"):
        fields["sliding_window"] = config.sliding_window
    return fields


def _tensors(architecture: str, model: tf.PreTrainedModel) -> Iterator[tuple[str, np.ndarray]]:
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    known = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
    turned = {
        f"{name}.weight" for name, each in model.named_modules() if isinstance(each, tf.pytorch_utils.Conv1D)
    }
    for name, tensor in model.named_parameters():
        whole = tensor.detach().float()
        for part, each in _split(name, whole.T if name in turned else whole):
            own = known.get_name(part, try_suffixes=(".weight", ".bias"))
            assert own, f"{architecture}: gguf knows no {part}"
            yield (
                own if own.endswith((".weight", ".bias")) else f"{own}.weight",
                _changed(architecture, part, each, model.config).numpy(),
            )


def _split(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """What the converter keeps apart: of experts, gate and up."""
    layer = re.search(r"layers\.\d+\.", name)
    if "experts.gate_up_proj" in name and layer:
        for half, each in zip(("gate", "up"), tensor.chunk(2, dim=1), strict=True):
            yield f"model.{layer[0]}mlp.experts.{half}_proj", each
    elif "experts.down_proj" in name and layer:
        yield f"model.{layer[0]}mlp.experts.down_proj", tensor
    elif "block_sparse_moe.router" in name and layer:
        yield f"model.{layer[0]}block_sparse_moe.router.layer.weight", tensor
    else:
        yield name, tensor


def _changed(architecture: str, name: str, tensor: torch.Tensor, config: tf.PreTrainedConfig) -> torch.Tensor:
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return tensor + 1
    if "shared_expert_gate" in name:
        return tensor.squeeze()
    found = re.search(r"self_attn\.([qk])_proj", name)
    if found and architecture in SIDE_BY_SIDE:
        heads = config.num_attention_heads if found[1] == "q" else config.num_key_value_heads
        halves = tensor.reshape(heads, 2, len(tensor) // heads // 2, *tensor.shape[1:])
        return halves.swapaxes(1, 2).reshape(tensor.shape).contiguous()
    return tensor
