"""Towers and projectors against transformers' models on the meta device."""

import csv
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForImageTextToText

from twophase.errors import InputError
from twophase.model.vision import Vision, vision_of

SHARED = os.environ.get("TWOPHASE_SHARED")
Config = dict[str, Any]
SMALL = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
SMALL |= {"intermediate_size": 32, "vocab_size": 100, "head_dim": 32, "pad_token_id": 0}


def _square(draw: random.Random) -> Config:
    """Sizes that every plain vision transformer has."""
    return {
        "hidden_size": 16 * draw.randint(1, 6),
        "intermediate_size": draw.randint(3, 90),
        "num_hidden_layers": draw.randint(1, 4),
        "num_attention_heads": draw.choice((1, 2, 4)),
        "num_channels": draw.choice((1, 3)),
        "patch_size": draw.randint(2, 5),
        "image_size": draw.randint(7, 40),
    }


def _grid(draw: random.Random) -> Config:
    return {
        "depth": draw.randint(1, 4),
        "hidden_size": 16 * draw.randint(1, 6),
        "intermediate_size": draw.randint(3, 90),
        "num_heads": draw.choice((1, 2, 4)),
        "in_channels": draw.choice((1, 3)),
        "patch_size": draw.randint(2, 5),
        "spatial_merge_size": draw.randint(1, 3),
        "temporal_patch_size": draw.randint(1, 3),
        "out_hidden_size": draw.randint(10, 70),
    }


def _qwen2_vl(draw: random.Random) -> Config:
    return {
        "vision_config": _grid(draw) | {"embed_dim": 16 * draw.randint(1, 6), "mlp_ratio": draw.randint(1, 5)}
    }


def _qwen3(draw: random.Random) -> Config:
    taps = list(range(draw.randint(0, 3)))
    grid = _grid(draw) | {"num_position_embeddings": draw.randint(1, 8) ** 2}
    return {"vision_config": grid | {"deepstack_visual_indexes": taps}}


def _glm4v(draw: random.Random) -> Config:
    own = {"image_size": draw.randint(7, 40), "attention_bias": draw.random() < 0.5}
    return {"vision_config": _grid(draw) | own}


def _siglip(draw: random.Random) -> Config:
    return _square(draw) | {"model_type": "siglip_vision_model", "vision_use_head": draw.random() < 0.5}


def _gemma3(draw: random.Random) -> Config:
    return {"vision_config": _siglip(draw)}


def _gemma4(draw: random.Random) -> Config:
    heads = draw.choice((2, 4))
    vision = _square(draw) | {"num_attention_heads": heads, "num_key_value_heads": draw.choice((1, 2))}
    vision |= {"head_dim": 4 * draw.randint(1, 5), "position_embedding_size": draw.randint(5, 50)}
    audio = {
        "hidden_size": 8 * draw.randint(1, 6),
        "num_hidden_layers": draw.randint(1, 3),
        "num_attention_heads": draw.choice((1, 2, 4)),
        "subsampling_conv_channels": [4 * draw.randint(1, 5), draw.randint(1, 9)],
        "conv_kernel_size": draw.choice((3, 5)),
        "output_proj_dims": draw.randint(5, 50),
    }
    return {"vision_config": vision, "audio_config": audio}


def _llama4(draw: random.Random) -> Config:
    own = {
        key: draw.randint(5, 60)
        for key in ("projector_input_dim", "projector_output_dim", "vision_output_dim")
    }
    return {"vision_config": _square(draw) | own}


def _kimi_k25(draw: random.Random) -> Config:
    grid = {"pos_emb_height": draw.randint(2, 9), "pos_emb_width": draw.randint(2, 9)}
    merge = {"merge_kernel_size": [draw.randint(1, 3), draw.randint(1, 3)]}
    return {"vision_config": _square(draw) | grid | merge, "projection_hidden_size": draw.randint(5, 60)}


def _minimax_m3(draw: random.Random) -> Config:
    own = {"temporal_patch_size": draw.randint(1, 3), "spatial_merge_size": draw.randint(1, 3)}
    return {"vision_config": _square(draw) | own, "projector_hidden_size": draw.randint(5, 60)}


def _step3p7(draw: random.Random) -> Config:
    own = _square(draw)
    vision = {
        "width": own.pop("hidden_size"),
        "layers": own.pop("num_hidden_layers"),
        "mlp_ratio": 2.5,
        **own,
    }
    return {"vision_config": vision, "projector_bias": draw.random() < 0.5}


def _llava(draw: random.Random) -> Config:
    tower = draw.choice(("clip_vision_model", "pixtral", "siglip_vision_model"))
    vision = _siglip(draw) if tower == "siglip_vision_model" else _square(draw) | {"model_type": tower}
    return {
        "vision_config": vision,
        "multimodal_projector_bias": draw.random() < 0.5,
        "vision_feature_layer": draw.choice((-2, [-2, -1])),
    }


def _mistral3(draw: random.Random) -> Config:
    vision = _square(draw) | {"model_type": "pixtral"}
    return _llava(draw) | {"vision_config": vision, "spatial_merge_size": draw.randint(1, 3)}


def _internvl(draw: random.Random) -> Config:
    switches = (
        "attention_bias",
        "use_qk_norm",
        "use_mask_token",
        "use_absolute_position_embeddings",
        "use_mean_pooling",
    )
    own: Config = {key: draw.random() < 0.5 for key in switches}
    own["norm_type"] = draw.choice(("layer_norm", "rms_norm"))
    own["image_size"] = draw.choice((24, [24, 36]))
    return {"vision_config": _square(draw) | own, "downsample_ratio": draw.choice((0.5, 0.25))}


def _mllama(draw: random.Random) -> Config:
    vision = _square(draw)
    heads = vision.pop("num_attention_heads")
    own = {"attention_heads": heads, "num_global_layers": draw.randint(1, 3), "vision_output_dim": 48}
    tiles = {"max_num_tiles": 2, "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]]}
    return {"vision_config": vision | own | tiles, "text_config": {"cross_attention_layers": []}}


KINDS: dict[str, tuple[Callable[[random.Random], Config], str | None]] = {
    "gemma3": (_gemma3, None),
    "gemma4": (_gemma4, None),
    "glm4v": (_glm4v, None),
    "glm4v_moe": (_glm4v, None),
    "internvl": (_internvl, "qwen2"),
    "kimi_k25": (_kimi_k25, "llama"),
    "llama4": (_llama4, None),
    "llava": (_llava, "llama"),
    "llava_next": (_llava, "llama"),
    "minimax_m3_vl": (_minimax_m3, None),
    "mistral3": (_mistral3, "mistral"),
    "mllama": (_mllama, None),
    "qwen2_vl": (_qwen2_vl, None),
    "qwen2_5_vl": (lambda draw: {"vision_config": _grid(draw)}, None),
    "qwen3_vl": (_qwen3, None),
    "qwen3_vl_moe": (_qwen3, None),
    "qwen3_5": (_qwen3, None),
    "qwen3_5_moe": (_qwen3, None),
    "step3p7": (_step3p7, None),
}


def counted_by_transformers(config: Config) -> tuple[int, Any]:
    """Parameters outside the language model and its head; the model."""
    config = json.loads(json.dumps(config))
    built = AutoConfig.for_model(config.pop("model_type"), **config)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(built)
    own = ("language_model.", "lm_head.")
    named = [(name, parameter.numel()) for name, parameter in model.named_parameters()]
    return sum(count for name, count in named if not any(part in name for part in own)), model


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_random_small_towers_count_as_transformers_does(kind: str, seed: int) -> None:
    draw, text_type = KINDS[kind]
    config = {"model_type": kind, **draw(random.Random(f"{kind} {seed}"))}
    text = SMALL | config.get("text_config", {}) | ({"model_type": text_type} if text_type else {})
    config["text_config"] = text
    own = vision_of(config, "a config")
    assert own is not None
    assert own.parameters == counted_by_transformers(config)[0]


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"gemma4"}))
def test_silent_configs_get_the_defaults_of_transformers(kind: str) -> None:
    config: Config = {"model_type": kind, "text_config": {"num_hidden_layers": 1}}
    if kind == "mistral3":  # the one whose language model is wider where nothing is said of it
        del config["text_config"]
    truth, model = counted_by_transformers(config)
    tower = model.config.vision_config
    width = tower.embed_dim if kind == "qwen2_vl" else tower.hidden_size
    assert vision_of(config, "a config") == Vision(tower.model_type, truth, tower.num_hidden_layers, width)


def test_silent_parts_of_gemma4_get_the_defaults_of_transformers() -> None:
    config: Config = {"model_type": "gemma4", "text_config": SMALL, "vision_config": {}, "audio_config": {}}
    truth = counted_by_transformers(config)[0]
    assert vision_of(config, "a config") == Vision("gemma4_vision + gemma4_audio", truth, 16, 768)
    alone = config | {"audio_config": None}
    assert vision_of(alone, "a config") == Vision("gemma4_vision", counted_by_transformers(alone)[0], 16, 768)
    del config["vision_config"]
    assert vision_of(config, "a config") == Vision(
        "gemma4_audio", counted_by_transformers(config)[0], 12, 1024
    )


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "hidden_size": 64},
        {"model_type": "gemma3_text"},
        {"model_type": "gemma4", "vision_config": None, "audio_config": None},
        {"model_type": "not known", "vision_config": None},
        {},
    ],
)
def test_a_language_model_alone_has_no_tower(config: Config) -> None:
    assert vision_of(config, "a config") is None


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"model_type": "kimi_k3", "vision_config": {"vt_hidden_size": 1024}}, "kimi_k3"),
        ({"model_type": "other", "vision_config": {"model_type": "swin"}}, "swin"),
        ({"model_type": "llava", "vision_config": {"model_type": "dinov2"}}, "dinov2"),
        ({"model_type": "qwen2_audio", "audio_config": {"model_type": "whisper"}}, "whisper"),
        ({"vision_config": {}}, "not named"),
    ],
)
def test_a_tower_that_is_not_known_is_named_and_not_counted(config: Config, name: str) -> None:
    assert vision_of(config, "a config") == Vision(name, None, None, None)


def test_one_part_not_known_leaves_the_whole_uncounted() -> None:
    config = {"model_type": "qwen3_vl", "vision_config": {}, "audio_config": {"model_type": "ears"}}
    assert vision_of(config, "a config") == Vision("qwen3_vl_vision + ears", None, 27, 1152)


# The keys of Moonshot's own file; read as the names that transformers gives them.
def test_kimi_is_read_under_its_own_names() -> None:
    draw = random.Random("kimi")
    config = {"model_type": "kimi_k25", "text_config": SMALL | {"model_type": "llama"}, **_kimi_k25(draw)}
    truth = counted_by_transformers(config)[0]
    vision = dict(config["vision_config"])
    own = {key: f"vt_{key}" for key in ("hidden_size", "intermediate_size", "num_hidden_layers")}
    own |= {key: f"init_{key}" for key in ("pos_emb_height", "pos_emb_width")}
    vision = {own.get(key, key): value for key, value in vision.items()}
    vision["mm_hidden_size"] = config.pop("projection_hidden_size")
    counted = vision_of({**config, "vision_config": vision}, "a config")
    assert counted is not None
    assert counted.parameters == truth


@pytest.mark.parametrize("value", [-1, 0, "16", None, 1.5, True, [16]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_width_is_refused_by_name(kind: str, value: object) -> None:
    key = {"qwen2_vl": "embed_dim", "step3p7": "width"}.get(kind, "hidden_size")
    with pytest.raises(InputError, match=f"a config, vision_config: {key} is ") as error:
        vision_of({"model_type": kind, "vision_config": {key: value}}, "a config")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("outer", "named"),
    [
        ({"vision_config": "clip"}, "vision_config"),
        ({"text_config": 3}, "text_config"),
        ({"text_config": {"hidden_size": -1}}, "hidden_size"),
        ({"text_config": {"model_type": "other"}}, "hidden_size"),
        ({"vision_feature_layer": "last"}, "vision_feature_layer"),
        ({"multimodal_projector_bias": None}, "multimodal_projector_bias"),
    ],
)
def test_wrong_keys_beside_the_tower_are_refused_by_name(outer: Config, named: str) -> None:
    with pytest.raises(InputError, match=named):
        vision_of({"model_type": "llava", **outer}, "a config")


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.just({}),
    st.lists(st.integers()),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 9), st.data())
def test_junk_under_any_key_is_counted_or_refused_in_one_line(
    kind: str, seed: int, data: st.DataObject
) -> None:
    config = {"model_type": kind, "text_config": {"hidden_size": 64}, **KINDS[kind][0](random.Random(seed))}
    inner = config["vision_config"]
    place = data.draw(st.sampled_from([config, inner]))
    place[data.draw(st.sampled_from(sorted(place.keys() - {"model_type"})))] = data.draw(JUNK)
    try:
        found = vision_of(config, "a config")
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert found is None or found.parameters is None or found.parameters > 0


@pytest.mark.skipif(SHARED is None, reason="TWOPHASE_SHARED names the folder of real configs")
def test_real_configs_count_as_the_table_says() -> None:
    folder = Path(str(SHARED)) / "data" / "configs"
    with (folder / "params.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["total_with_vision"]]
    expected = {row["file"]: int(row["total_with_vision"]) - int(row["total_params_text"]) for row in rows}
    own = {name: vision_of(json.loads((folder / f"{name}.json").read_text()), name) for name in expected}
    assert {name: found.parameters if found else None for name, found in own.items()} == expected
    assert len(expected) > 20
