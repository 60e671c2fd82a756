"""Towers of any image size whose last part merges neighbouring patches: Qwen-VL and GLM-V."""

from dataclasses import replace
from typing import Any

from twophase.model.keys import Keys
from twophase.model.vision.parts import block, linear, listed, mlp, norm, patches, size, switch
from twophase.model.vision.tower import Tower

DEPTH = ("num_hidden_layers", "depth")


def _patch(keys: Keys, width: int, bias: bool) -> int:
    """A 3-D convolution: a patch spans several frames."""
    inputs = size(keys, "in_channels") * size(keys, "temporal_patch_size") * size(keys, "patch_size") ** 2
    return linear(inputs, width, bias)


def _merger(keys: Keys, width: int, out: int, norm_width: int, norm_bias: bool = True) -> int:
    merged = width * size(keys, "spatial_merge_size") ** 2
    return norm(norm_width, norm_bias) + linear(merged, merged) + linear(merged, out)


def _qwen2_vl(keys: Keys) -> int:
    width = size(keys, "embed_dim")
    layer = block(width, int(width * keys.number("mlp_ratio")))
    merger = _merger(keys, width, size(keys, "hidden_size"), width)
    return _patch(keys, width, bias=False) + size(keys, *DEPTH) * layer + merger


def _qwen2_5_vl(keys: Keys) -> int:
    width = size(keys, "hidden_size")
    layer = block(width, size(keys, "intermediate_size"), gated=True, norm_bias=False)
    merger = _merger(keys, width, size(keys, "out_hidden_size"), width, norm_bias=False)
    return _patch(keys, width, bias=False) + size(keys, *DEPTH) * layer + merger


def _qwen3_5(keys: Keys) -> int:
    width = size(keys, "hidden_size")
    layers = size(keys, *DEPTH) * block(width, size(keys, "intermediate_size"))
    embeddings = _patch(keys, width, bias=True) + size(keys, "num_position_embeddings") * width
    return embeddings + layers + _merger(keys, width, size(keys, "out_hidden_size"), width)


def _qwen3_vl(keys: Keys) -> int:
    """Qwen3.5's, and one more merger for each layer whose output the language model sees as well."""
    width = size(keys, "hidden_size")
    merged = width * size(keys, "spatial_merge_size") ** 2
    merger = _merger(keys, width, size(keys, "out_hidden_size"), merged)
    return _qwen3_5(keys) + listed(keys, "deepstack_visual_indexes") * merger


def _glm4v(keys: Keys) -> int:
    width, out, inner = (size(keys, key) for key in ("hidden_size", "out_hidden_size", "intermediate_size"))
    layer = block(
        width,
        out,  # the tower's own MLPs are this wide; intermediate_size is the merger's
        qkv_bias=switch(keys, "attention_bias"),
        out_bias=False,
        gated=True,
        mlp_bias=False,
        norm_bias=False,
    )
    embeddings = _patch(keys, width, bias=True) + patches(keys) * width
    downsample = linear(width * size(keys, "spatial_merge_size") ** 2, out)
    merger = linear(out, out, bias=False) + norm(out) + mlp(out, inner, gated=True, bias=False)
    return embeddings + size(keys, *DEPTH) * layer + 2 * width + downsample + merger


_COMMON = {"in_channels": 3, "spatial_merge_size": 2, "temporal_patch_size": 2}
_QWEN3: dict[str, Any] = {
    **_COMMON,
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 16,
    "out_hidden_size": 3584,
    "num_position_embeddings": 2304,
}
QWEN2_VL = Tower(
    "qwen2_vl_vision",
    _qwen2_vl,
    {**_COMMON, "depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "patch_size": 14},
    DEPTH,
    ("embed_dim",),
)
QWEN2_5_VL = Tower(
    "qwen2_5_vl_vision",
    _qwen2_5_vl,
    {
        **_COMMON,
        "depth": 32,
        "hidden_size": 3584,
        "intermediate_size": 3420,
        "patch_size": 14,
        "out_hidden_size": 3584,
    },
    DEPTH,
)
QWEN3_VL = Tower("qwen3_vl_vision", _qwen3_vl, {**_QWEN3, "deepstack_visual_indexes": [8, 16, 24]}, DEPTH)
QWEN3_VL_MOE = replace(QWEN3_VL, name="qwen3_vl_moe_vision")
QWEN3_5 = Tower("qwen3_5_vision", _qwen3_5, _QWEN3, DEPTH)
QWEN3_5_MOE = replace(QWEN3_5, name="qwen3_5_moe_vision")
GLM4V = Tower(
    "glm4v_vision",
    _glm4v,
    {
        **_COMMON,
        "depth": 24,
        "hidden_size": 1536,
        "intermediate_size": 13696,
        "image_size": 336,
        "patch_size": 14,
        "out_hidden_size": 4096,
    },
    DEPTH,
)
GLM4V_MOE = replace(GLM4V, name="glm4v_moe_vision")
