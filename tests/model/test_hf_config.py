"""Reading config.json, against transformers' own reading of the same keys."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_configs import CLASSES, LLAMA3, random_config, reference

from twophase.errors import InputError
from twophase.model.counts import parameters
from twophase.model.hf_config import read_hf_config, spec_from_config
from twophase.model.spec import ModelSpec

SMALL = {
    "model_type": "llama",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rope_scaling": LLAMA3,
}
QWEN = {
    **SMALL,
    "model_type": "qwen2",
    "use_sliding_window": True,
    "max_window_layers": 1,
    "sliding_window": 8,
}
GEMMA_TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}
GEMMA = {"model_type": "gemma3", "text_config": GEMMA_TEXT}


def read(**changes: Any) -> ModelSpec:
    return spec_from_config({**SMALL, **changes}, "small", "config.json")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("family", CLASSES)
def test_as_transformers_reads_it(family: str, seed: int) -> None:
    config = random_config(family, seed)
    if family == "gemma3_text" and config.get("sliding_window", 16) is None:
        config["layer_types"] = ["full_attention"] * config["num_hidden_layers"]  # theirs fails otherwise
    model = reference(copy.deepcopy(config))
    theirs, ours = model.config, spec_from_config(config, "small", "config.json")
    assert parameters(ours).total == sum(parameter.numel() for parameter in model.parameters())
    assert (ours.vocab_size, ours.d_model) == (theirs.vocab_size, theirs.hidden_size)
    assert ours.context_length == theirs.max_position_embeddings
    assert ours.norm_eps == theirs.rms_norm_eps
    assert ours.tied_embeddings == theirs.tie_word_embeddings
    assert ours.sandwich_norms == hasattr(model.model.layers[0], "pre_feedforward_layernorm")
    default = "sliding_attention" if family == "mistral" else "full_attention"
    kinds = getattr(theirs, "layer_types", None) or [default] * theirs.num_hidden_layers
    for kind, layer, block in zip(kinds, ours.layers, model.model.layers, strict=True):
        own, attention = layer.attention, block.self_attn
        window = getattr(theirs, "sliding_window", None) if kind == "sliding_attention" else None
        assert own.window == window
        assert own.head_dim == attention.head_dim
        assert own.heads // own.kv_heads == attention.num_key_value_groups
        assert own.scale == pytest.approx(attention.scaling, rel=1e-12)
        assert own.qkv_bias == (attention.q_proj.bias is not None)
        assert own.out_bias == (attention.o_proj.bias is not None)
        assert own.qk_norm == hasattr(attention, "q_norm")
        assert layer.mlp.bias == (block.mlp.up_proj.bias is not None)
        rope = theirs.rope_parameters.get(kind, theirs.rope_parameters)
        assert (own.rope.theta, own.rope.scaling) == (rope["rope_theta"], rope["rope_type"])
        assert own.rope.factor == rope.get("factor", 1.0)
        assert own.rope.original_context == rope.get("original_max_position_embeddings", 0)


def test_published_gemma_leaves_out_what_its_class_assumes() -> None:
    spec = spec_from_config(GEMMA, "gemma", "config.json")
    local, everywhere = (layer.attention for layer in spec.layers)
    assert (spec.vocab_size, spec.tied_embeddings, spec.context_length) == (262208, True, 131072)
    assert (local.heads, local.kv_heads, local.head_dim, local.scale) == (8, 4, 256, 1 / 16)
    assert (local.window, everywhere.window) == (4096, None)
    assert (local.rope.theta, everywhere.rope.theta) == (1e4, 1e6)
    assert (local.rope.scaling, everywhere.rope.factor) == ("default", 8.0)
    assert spec.embedding_scale == math.sqrt(64)
    assert spec.layers[0].mlp.activation == "gelu_tanh"


def test_qwens_window_is_off_by_its_switch() -> None:
    published = {**QWEN, "sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 0}
    spec = spec_from_config(published, "qwen", "config.json")
    assert [layer.attention.window for layer in spec.layers] == [None, None]
    assert [layer.attention.window for layer in spec_from_config(QWEN, "", "").layers] == [None, 8]


def test_a_quantised_checkpoint_keeps_its_shape() -> None:
    assert read(quantization_config={"quant_method": "fp8"}) == read()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "mamba"}, "architecture 'mamba' is not known here; did you mean"),
        ({"model_type": None}, "config.json has no model_type"),
        ({"hidden_size": None}, "config.json has no hidden_size"),
        ({"vocab_size": None}, "config.json has no vocab_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_attention_heads": -4}, "num_attention_heads is -4"),
        ({"intermediate_size": 96.5}, "intermediate_size is 96.5; it must be a whole number"),
        ({"num_hidden_layers": 10**30}, "at most 10000"),
        ({"num_key_value_heads": 3}, "4 attention heads can't share 3 key-value heads evenly"),
        ({"head_dim": 7}, "head_dim is 7; rotary embeddings need an even one"),
        ({"hidden_act": "relu6"}, "activation 'relu6' is not known"),
        ({"rope_scaling": {"rope_type": "warped"}}, "rope type 'warped' is not known"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling has no factor"),
        ({"rope_theta": "1e4"}, "rope_theta is '1e4'; it must be a number above zero"),
        ({"rope_parameters": 1}, "rope_parameters is 1; it must be an object"),
        ({"hidden_size": 66}, "4 attention heads can't share hidden_size 66 evenly"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings is 'false'; it must be true or false"),
        ({"attention_bias": 1}, "attention_bias is 1; it must be true or false"),
        ({"model_type": ["llama"]}, "architecture ['llama'] is not known here"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        read(**changes)
    assert says in str(error.value)


def places(config: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in config.items():
        found += [(*above, key), *(places(value, (*above, key)) if isinstance(value, dict) else [])]
    return found


CONFIGS = (SMALL, QWEN, {**SMALL, "model_type": "mistral"}, GEMMA)
OTHER_KEYS = ("head_dim", "layer_types", "rope_theta", "rms_norm_eps", "hidden_act", "sliding_window_pattern")
PLACES = [
    (config, place) for config in CONFIGS for place in [*places(config), *((key,) for key in OTHER_KEYS)]
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**31) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)


@given(st.sampled_from(PLACES), VALUES)
def test_any_value_is_taken_or_refused_in_one_line(
    place: tuple[dict[str, Any], tuple[str, ...]], value: object
) -> None:
    config, (*above, key) = copy.deepcopy(place[0]), place[1]
    inner = config
    for name in above:
        inner = inner[name]
    inner[key] = value
    try:
        spec = spec_from_config(config, "odd", "config.json")
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert parameters(spec).total > 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"model_type": "lla', "is not JSON, or is cut off"),
        (b"", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"vocab_size": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"[1]", "it holds no JSON object"),
    ],
)
def test_a_file_that_is_no_config(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_hf_config(tmp_path)


def test_a_directory_or_its_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json does not exist"):
        read_hf_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    assert read_hf_config(tmp_path) == read_hf_config(tmp_path / "config.json")
    assert read_hf_config(tmp_path).name == tmp_path.name


def test_gemma_reads_hidden_activation_alone() -> None:
    changed = {**GEMMA, "text_config": {**GEMMA_TEXT, "hidden_act": "silu"}}
    assert spec_from_config(changed, "gemma", "config.json") == spec_from_config(
        GEMMA, "gemma", "config.json"
    )


def test_the_folder_one_stands_in_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    monkeypatch.chdir(tmp_path)
    assert read_hf_config(Path()).name == read_hf_config(Path("config.json")).name == tmp_path.name
