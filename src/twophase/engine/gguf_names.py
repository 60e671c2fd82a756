"""What GGUF files call the tensors, and which of them an architecture holds in one.

Names: https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/constants.py
"""

from collections.abc import Mapping, Sequence
from math import prod

from twophase.engine.checkpoint import Checkpoint, as_row
from twophase.engine.tensors import Shape, Stored

OUTER = {"embedding": "token_embd", "positions": "position_embd", "norm": "output_norm", "head": "output"}
MATRICES = ("gate", "up", "down")
INNER = {
    **{"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"},
    **{"q_norm": "attn_q_norm", "k_norm": "attn_k_norm"},
    **{"attention_norm": "attn_norm", "attention_post_norm": "post_attention_norm"},
    **{"mlp_norm": "ffn_norm", "mlp_post_norm": "post_ffw_norm"},
    **{name: f"ffn_{name}" for name in MATRICES},
    **{"router": "ffn_gate_inp", "shared_gate": "ffn_gate_inp_shexp"},
    **{f"experts.{name}": f"ffn_{name}_exps" for name in MATRICES},
    **{f"shared.{name}": f"ffn_{name}_shexp" for name in MATRICES},
}
# Tensors in which some architectures hold several of ours, one below another.
FUSED = {
    "attn_qkv": ("q", "k", "v"),
    "ffn_up": ("gate", "up"),
    "ffn_gate_up_exps": ("experts.gate", "experts.up"),
}


def take(checkpoint: Checkpoint, name: str, shapes: Mapping[str, Shape]) -> Stored:
    """The tensor that we call `name`; `shapes`: of all."""
    matrix = name.removesuffix("_bias")
    kind = "weight" if matrix == name else "bias"
    if not matrix.startswith("layers."):
        return checkpoint.take(own_name(name), shapes[name])
    _, i, leaf = matrix.split(".", 2)
    ours, theirs, suffix = f"layers.{i}.", f"blk.{i}.", name.removeprefix(matrix)
    for fused, leaves in FUSED.items():
        if leaf in leaves and _holds(
            checkpoint, f"{theirs}{fused}.weight", [ours + each for each in leaves], shapes
        ):
            parts = [shapes[f"{ours}{each}{suffix}"] for each in leaves]
            return checkpoint.take_part(f"{theirs}{fused}.{kind}", parts, leaves.index(leaf))
    own = own_name(name)
    if leaf == "shared_gate" and checkpoint.shapes.get(own) == shapes[name][1:]:
        return as_row(checkpoint.take(own, shapes[name][1:]))
    return checkpoint.take(own, shapes[name])


def own_name(name: str) -> str:
    """Of a tensor that lies by itself."""
    matrix = name.removesuffix("_bias")
    kind = "weight" if matrix == name else "bias"
    if not matrix.startswith("layers."):
        return f"{OUTER[matrix]}.{kind}"
    _, i, leaf = matrix.split(".", 2)
    return f"blk.{i}.{INNER[leaf]}.{kind}"


def _holds(checkpoint: Checkpoint, own: str, names: Sequence[str], shapes: Mapping[str, Shape]) -> bool:
    """Whether it is as large as all of them together."""
    return (
        own in checkpoint
        and all(each in shapes for each in names)
        and (prod(checkpoint.shapes[own]) == sum(prod(shapes[each]) for each in names))
    )
