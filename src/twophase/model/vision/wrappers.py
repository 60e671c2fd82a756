"""Which tower a multimodal wrapper holds, and the projector between it and the language model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twophase.errors import InputError
from twophase.model.keys import Keys
from twophase.model.vision import gemma4_towers, grid_towers, own_towers, vit_towers
from twophase.model.vision.parts import linear, norm, size, switch
from twophase.model.vision.tower import Tower

Projector = Callable[[Keys, Keys, int], int]  # the wrapper's keys, the tower's, the language model's width


@dataclass(frozen=True, slots=True)
class Wrapper:
    """`tower`: where the file names none; `others`: what else may stand there, None: the class is fixed."""

    tower: Tower
    projector: Projector | None = None  # None: the tower ends in the language model's width by itself
    text: str = "llama"  # the language model's type where the file names none
    defaults: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[Tower, ...] | None = None
    # The keys of the tower where the file has no vision_config; None: then there is no tower.
    without: Mapping[str, Any] | None = field(default_factory=dict)


def _gemma3(outer: Keys, tower: Keys, text: int) -> int:
    width = size(tower, "hidden_size")
    return linear(width, text, bias=False) + width


def _gemma4(outer: Keys, tower: Keys, text: int) -> int:
    return linear(size(tower, "hidden_size"), text, bias=False)


def gemma4_audio(outer: Keys, tower: Keys, text: int) -> int:
    return linear(size(tower, "output_proj_dims"), text, bias=False)


def _features(outer: Keys, tower: Keys) -> int:
    """The projector's input: the outputs of the layers that vision_feature_layer names, side by side."""
    layers = outer.given("vision_feature_layer")
    if isinstance(layers, bool) or not isinstance(layers, int | list):
        raise InputError(
            f"{outer.where}: vision_feature_layer is {layers!r:.40}; it must be a whole number or a list"
        )
    return size(tower, "hidden_size") * (len(layers) if isinstance(layers, list) else 1)


def _llava(outer: Keys, tower: Keys, text: int) -> int:
    bias = switch(outer, "multimodal_projector_bias")
    return linear(_features(outer, tower), text, bias) + linear(text, text, bias)


def _llava_next(outer: Keys, tower: Keys, text: int) -> int:
    return _llava(outer, tower, text) + text  # the embedding of an image row's end


def _mistral3(outer: Keys, tower: Keys, text: int) -> int:
    width = size(tower, "hidden_size")
    merger = linear(width * size(outer, "spatial_merge_size") ** 2, width, bias=False)
    return width + merger + _llava(outer, tower, text)


def _internvl(outer: Keys, tower: Keys, text: int) -> int:
    ratio = outer.number("downsample_ratio")
    if not 1 / 64 <= ratio <= 1:
        raise InputError(f"{outer.where}: downsample_ratio is {ratio}; it must be at most 1, such as 0.5")
    merged = size(tower, "hidden_size") * int(1 / ratio) ** 2
    return norm(merged) + linear(merged, text) + linear(text, text)


def _llama4(outer: Keys, tower: Keys, text: int) -> int:
    return linear(size(tower, "vision_output_dim"), text, bias=False)


def _mllama(outer: Keys, tower: Keys, text: int) -> int:
    return linear(size(tower, "vision_output_dim"), text)


def _kimi_k25(outer: Keys, tower: Keys, text: int) -> int:
    own = "projection_hidden_size" in outer.config
    merged = own_towers.kimi_merged(tower)
    width = size(outer, "projection_hidden_size") if own else size(tower, "mm_hidden_size")
    return norm(width) + linear(merged, merged) + linear(merged, text)


def _minimax_m3(outer: Keys, tower: Keys, text: int) -> int:
    inner, merged = size(outer, "projector_hidden_size"), text * size(tower, "spatial_merge_size") ** 2
    return linear(size(tower, "hidden_size"), inner) + linear(merged, inner) + 2 * linear(inner, text)


def _step3p7(outer: Keys, tower: Keys, text: int) -> int:
    return linear(4 * size(tower, *own_towers.STEP_WIDTH), text, switch(outer, "projector_bias"))


_LLAVA: dict[str, Any] = {
    "defaults": {"vision_feature_layer": -2, "multimodal_projector_bias": True},
    "others": (vit_towers.SIGLIP, vit_towers.PIXTRAL),
    "without": {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "image_size": 336,
        "patch_size": 14,
    },
}
_MISTRAL3 = {
    "vision_feature_layer": -1,
    "multimodal_projector_bias": False,
    "spatial_merge_size": 2,
    "hidden_size": 5120,
}
WRAPPERS = {
    "gemma3": Wrapper(vit_towers.SIGLIP, _gemma3, "gemma3_text", others=()),
    "gemma4": Wrapper(gemma4_towers.VISION, _gemma4, "gemma4_text", without=None),
    "glm4v": Wrapper(grid_towers.GLM4V),
    "glm4v_moe": Wrapper(grid_towers.GLM4V_MOE),
    "internvl": Wrapper(vit_towers.INTERNVL, _internvl, "qwen2", {"downsample_ratio": 0.5}),
    "kimi_k25": Wrapper(own_towers.KIMI_K25, _kimi_k25, "deepseek_v3"),
    "llama4": Wrapper(own_towers.LLAMA4, _llama4, "llama4_text"),
    "llava": Wrapper(vit_towers.CLIP, _llava, **_LLAVA),
    "llava_next": Wrapper(vit_towers.CLIP, _llava_next, **_LLAVA),
    "minimax_m3_vl": Wrapper(
        own_towers.MINIMAX_M3, _minimax_m3, "minimax_m3_vl_text", {"projector_hidden_size": 6144}
    ),
    "mistral3": Wrapper(vit_towers.PIXTRAL, _mistral3, "mistral", _MISTRAL3, (), {"patch_size": 14}),
    "mllama": Wrapper(vit_towers.MLLAMA, _mllama, "mllama_text_model"),
    "qwen2_vl": Wrapper(grid_towers.QWEN2_VL),
    "qwen2_5_vl": Wrapper(grid_towers.QWEN2_5_VL),
    "qwen3_vl": Wrapper(grid_towers.QWEN3_VL),
    "qwen3_vl_moe": Wrapper(grid_towers.QWEN3_VL_MOE),
    "qwen3_5": Wrapper(grid_towers.QWEN3_5),
    "qwen3_5_moe": Wrapper(grid_towers.QWEN3_5_MOE),
    "step3p7": Wrapper(own_towers.STEP3P7, _step3p7, "step3p7_text"),
}
# A language model's width where its config is silent, by its model_type.
TEXT_WIDTHS = {
    "deepseek_v3": 7168,
    "gemma3_text": 2304,
    "gemma4_text": 2304,
    "llama": 4096,
    "llama4_text": 5120,
    "minimax_m3_vl_text": 6144,
    "mistral": 4096,
    "mllama_text_model": 4096,
    "qwen2": 4096,
    "qwen3": 4096,
    "qwen3_moe": 2048,
    "step3p7_text": 4096,
}
