"""transformers' models as llama.cpp's converter would write them, named by gguf's own map of tensor names."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

Shape = tuple[int, ...]

MATRICES = (Type.Q8_0, Type.Q4_0, Type.F16, Type.BF16)  # dealt out in turn
# Kept in F32 whatever the file is in, or in one type with the other half of a matrix.
KEPT = ("ffn_gate_inp", "conv", "altup", "attn_k_b", "attn_v_b", "ssm_ba", "_norm")
SUFFIXES = (".weight", ".bias", ".scale", ".ssm_a", ".ssm_d")
RENAMED = (
    (".dt_bias", ".dt_proj.bias"),
    ("gate.moe_statics.e_score_correction_bias", "moe_statics.e_score_correction.bias"),
    ("down_proj_bias", "down_proj.bias"),
    ("block_sparse_moe.router", "block_sparse_moe.router.layer"),
    ("router.per_expert_scale", "experts.down_proj.scale"),
    ("router.scale", "router.proj.scale"),
    (".correct_output_scale", ".correct_output_scale.weight"),
    ("block_sparse_moe.experts.down_proj", "block_sparse_moe.output_linear.weight"),
)


def write_as_converted(
    path: Path,
    architecture: str,
    model: PreTrainedModel,
    rope_freqs: Sequence[float] | None = None,
    **fields: Any,
) -> Path:
    """`fields`: GGUFWriter's add_... methods and their values."""
    writer = gguf.GGUFWriter(str(path), architecture)
    if rope_freqs is not None:
        writer.add_tensor("rope_freqs.weight", np.array(rope_freqs, np.float32))
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    for i, (name, shape) in enumerate(tensors(architecture, model)):
        kind = _type(name, shape, i)
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        data = np.zeros((*shape[:-1], shape[-1] // elements * size), np.uint8)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _type(name: str, shape: Shape, i: int) -> Type:
    if len(shape) < 2 or not name.endswith(".weight") or any(each in name for each in KEPT):
        return Type.F32
    return MATRICES[i % 4] if shape[-1] % 32 == 0 else Type.F16


def tensors(architecture: str, model: PreTrainedModel) -> Iterator[tuple[str, Shape]]:
    """Each parameter's name and shape in the file, outermost dimension first."""
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    known = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
    fused = gguf.MODEL_TENSOR.FFN_GATE_EXP not in gguf.MODEL_TENSORS[arch]  # gate and up in one
    for theirs, whole in _shapes(model):
        name = _as_checkpoint(theirs, architecture)
        for part, shape in [(name, whole)] if fused and "gate_up" in name else _split(name, whole, model):
            found = known.get_name(part, try_suffixes=(".weight", ".bias", ".scale"))
            assert found, f"{architecture}: gguf knows no {part}"
            yield found if found.endswith(SUFFIXES) else f"{found}.weight", shape


def _as_checkpoint(name: str, architecture: str) -> str:
    """The name that a published checkpoint has for it, or that the converter gives it first."""
    if architecture.startswith("nemotron_h"):
        name = name.replace("model.layers.", "backbone.layers.")
    if architecture == "bloom":
        name = name.removeprefix("transformer.")
    for theirs, checkpoints in RENAMED:
        name = name.replace(theirs, checkpoints)
    return name


def _shapes(model: PreTrainedModel) -> Iterator[tuple[str, Shape]]:
    """As matrices [outputs, inputs], which GPT-2's are not in transformers."""
    turned = {f"{name}.weight" for name, each in model.named_modules() if isinstance(each, Conv1D)}
    for name, each in model.named_parameters():
        shape = tuple(each.shape)
        if len(shape) == 3 and "conv" in name:
            shape = (shape[0], shape[2])
        yield name, shape[::-1] if name in turned else shape


def _split(name: str, shape: Shape, model: PreTrainedModel) -> Iterator[tuple[str, Shape]]:
    """What transformers holds in one tensor and llama.cpp in several."""
    config = model.config
    d = config.hidden_size
    at, _, leaf = name.rpartition(".")
    if leaf == "gate_up_proj":
        rows = (shape[1] if shape[2] == d else shape[2]) // 2
        for half in ("gate_proj", "up_proj"):
            yield _expert(f"{at}.{half}"), (shape[0], rows, d)
    elif leaf == "gate_up_proj_bias":
        for half in ("gate_proj", "up_proj"):
            yield f"{at}.{half}.bias", (shape[0], shape[1] // 2)
    elif leaf in ("up_proj", "down_proj") and len(shape) == 3:
        turned = leaf == "down_proj" and shape[2] == d  # [experts, inputs, outputs]
        yield _expert(name), (shape[0], d, shape[1]) if turned else shape
    elif "altup" in name and "projections." in name:  # one tensor of all
        if ".0." in name:
            yield name.replace(".0.", "."), (config.altup_num_inputs - 1, *shape)
    elif name.endswith("kv_b_proj.weight"):
        nope, value, rank = config.qk_nope_head_dim, config.v_head_dim, config.kv_lora_rank
        yield name.replace("kv_b_proj", "k_b_proj"), (config.num_attention_heads, rank, nope)
        yield name.replace("kv_b_proj", "v_b_proj"), (config.num_attention_heads, value, rank)
    elif "in_proj_qkvz" in name:
        values = config.linear_num_value_heads * config.linear_value_head_dim
        yield name.replace("in_proj_qkvz", "in_proj_qkv"), (shape[0] - values, d)
        yield name.replace("in_proj_qkvz", "in_proj_z"), (values, d)
    elif "shared_mlp.input_linear" in name:
        routed = bool(getattr(config, "num_local_experts", 0))
        block = name.split("shared_mlp", maxsplit=1)[0] + ("mlp.shared_experts" if routed else "mlp")
        for half in ("gate_proj", "up_proj"):
            yield f"{block}.{half}.weight", (shape[0] // 2, d)
    elif "shared_mlp.output_linear" in name and not getattr(config, "num_local_experts", 0):
        yield name.replace("shared_mlp.output_linear", "mlp.down_proj"), shape
    else:
        yield name, shape


def _expert(name: str) -> str:
    """The name that gguf's map has for experts of any model."""
    layer = re.search(r"layers\.\d+", name)
    assert layer
    return f"model.{layer[0]}.mlp.experts.{name.rpartition('.')[2]}"
