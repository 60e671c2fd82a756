"""One model as three programs write it down: transformers 5, transformers 4 and gguf. All must read alike."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import transformers as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twophase.errors import InputError
from twophase.model.catalogue import load_spec
from twophase.model.counts import parameters
from twophase.model.gguf_file import read_gguf
from twophase.model.gguf_header import read_gguf_spec, spec_from_gguf
from twophase.model.spec import ModelSpec

SHAPE = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
}
LINEAR = {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5}
LLAMA3 = {
    **{"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0},
    **{"high_freq_factor": 4.0, "original_max_position_embeddings": 128},
}
GEMMA_ROPES = {
    "full_attention": {**LINEAR, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20_000.0},
}
CONFIGS = {
    "llama": lambda: tf.LlamaConfig(**SHAPE),
    "llama, linear": lambda: tf.LlamaConfig(**SHAPE, rope_parameters=LINEAR, tie_word_embeddings=True),
    "llama, llama3": lambda: tf.LlamaConfig(**SHAPE, rope_parameters=LLAMA3, head_dim=32, mlp_bias=True),
    "mistral": lambda: tf.MistralConfig(**SHAPE, sliding_window=32),
    "mistral without a window": lambda: tf.MistralConfig(**SHAPE, sliding_window=None),
    "qwen2": lambda: tf.Qwen2Config(**SHAPE),
    "qwen2, sliding": lambda: tf.Qwen2Config(
        **SHAPE, use_sliding_window=True, sliding_window=32, max_window_layers=3
    ),
    "qwen3": lambda: tf.Qwen3Config(**SHAPE, head_dim=32, tie_word_embeddings=True),
    "gemma3_text": lambda: tf.Gemma3TextConfig(
        **SHAPE, head_dim=32, query_pre_attn_scalar=24, sliding_window=48, rope_parameters=GEMMA_ROPES
    ),
    "gemma3_text, every second": lambda: tf.Gemma3TextConfig(**SHAPE, head_dim=32, sliding_window_pattern=2),
}


def expected(config: tf.PreTrainedConfig) -> list[tuple[Any, ...]]:
    """(window, theta, scaling, factor) layer by layer, as the config object says."""
    rows, theirs = [], config.to_dict()
    always = "sliding_attention" if config.model_type == "mistral" else "full_attention"
    for kind in theirs.get("layer_types") or [always] * config.num_hidden_layers:
        rope = config.rope_parameters.get(kind, config.rope_parameters)
        window = config.sliding_window if kind == "sliding_attention" else None
        rows.append((window, rope["rope_theta"], rope["rope_type"], rope.get("factor", 1.0)))
    return rows


def found(spec: ModelSpec) -> list[tuple[Any, ...]]:
    each = [(layer.attention.window, layer.attention.rope) for layer in spec.layers]
    return [(window, rope.theta, rope.scaling, rope.factor) for window, rope in each]


def old_form(keys: dict[str, Any]) -> dict[str, Any]:
    """As transformers 4 wrote it: a few rotary keys, a pattern, and no list of layers."""
    keys = dict(keys)
    kinds, ropes = keys.pop("layer_types", None), keys.pop("rope_parameters")
    everywhere = dict(ropes.get("full_attention", ropes))
    keys["rope_theta"] = everywhere.pop("rope_theta")
    scaled = everywhere["rope_type"] != "default"
    gemma = keys["model_type"] == "gemma3_text"
    if not gemma and everywhere["rope_type"] == "linear":  # the name before rope_type, in Llama 2's time
        everywhere["type"] = everywhere.pop("rope_type")
    keys["rope_scaling"] = everywhere if scaled else None
    if gemma:
        keys.pop("_sliding_window_pattern", None)
        keys["sliding_window_pattern"] = kinds.index("full_attention") + 1
        keys["rope_local_base_freq"] = ropes["sliding_attention"]["rope_theta"]
    return keys


@pytest.mark.parametrize("name", CONFIGS)
def test_both_forms_of_config_json(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]()
    config.save_pretrained(tmp_path)
    new = load_spec(str(tmp_path))
    assert found(new) == expected(config)

    file = tmp_path / "config.json"
    file.write_text(json.dumps(old_form(json.loads(file.read_text()))))
    assert found(new) == expected(tf.AutoConfig.from_pretrained(tmp_path))  # the old form is a true one
    assert load_spec(str(tmp_path)) == new


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size"]
)
def test_a_models_own_size_is_never_guessed_at(name: str, key: str, tmp_path: Path) -> None:
    CONFIGS[name]().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    keys = json.loads(file.read_text())
    del keys[key]
    keys.pop("layer_types", None)
    file.write_text(json.dumps(keys))
    with pytest.raises(InputError, match=f"config.json has no {key}$"):
        load_spec(str(tmp_path))


def test_a_wrappers_text_config_leaves_out_what_its_class_assumes(tmp_path: Path) -> None:
    """As transformers writes them: the published Gemma 3 files name no heads and no vocabulary."""
    tf.Gemma3Config(text_config={"hidden_size": 64, "num_hidden_layers": 7}).save_pretrained(tmp_path)
    theirs = tf.AutoConfig.from_pretrained(tmp_path).text_config
    ours = load_spec(str(tmp_path))
    assert (ours.d_model, ours.layers[0].mlp.d_ff) == (64, theirs.intermediate_size)
    assert {layer.attention.heads for layer in ours.layers} == {theirs.num_attention_heads}
    assert (ours.vocab_size, len(ours.layers)) == (theirs.vocab_size, 7)


GGUF_CONFIGS = {
    "llama": lambda: tf.LlamaConfig(**SHAPE, rope_parameters=LINEAR),
    "qwen2": lambda: tf.Qwen2Config(**SHAPE),
    "qwen3": lambda: tf.Qwen3Config(**SHAPE, head_dim=32, tie_word_embeddings=True),
    "gemma3": lambda: tf.Gemma3TextConfig(
        **SHAPE,
        head_dim=32,
        query_pre_attn_scalar=32,
        sliding_window=48,
        rope_parameters={**GEMMA_ROPES, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
    ),
}


def write_gguf(path: Path, architecture: str, config: tf.PreTrainedConfig) -> Path:
    """The header as llama.cpp's converter writes it, with the tensors that tell of biases and norms."""
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_name("tiny")
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)
    tensors = ["token_embd.weight"] + ["output.weight"] * (not config.tie_word_embeddings)
    tensors += ["blk.0.attn_q.bias"] * (architecture == "qwen2")
    tensors += ["blk.0.attn_q_norm.weight"] * (architecture in ("qwen3", "gemma3"))
    for tensor in tensors:
        writer.add_tensor(tensor, np.zeros((config.vocab_size, config.hidden_size), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("architecture", GGUF_CONFIGS)
def test_a_gguf_file_and_config_json(architecture: str, tmp_path: Path) -> None:
    config = GGUF_CONFIGS[architecture]()
    config.save_pretrained(tmp_path)
    from_json = load_spec(str(tmp_path))
    assert replace(
        load_spec(str(write_gguf(tmp_path / "tiny.gguf", architecture, config))), name=""
    ) == replace(from_json, name="")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", "gemma3", GGUF_CONFIGS["gemma3"]())


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_header_with_any_bytes_changed(data: st.DataObject, whole: Path) -> None:
    """It still reads, or it is refused in one line."""
    content = bytearray(whole.read_bytes())
    header = content.index(b"blk.0.attn_q_norm.weight") + 64
    for _ in range(data.draw(st.integers(1, 4))):
        at, width = data.draw(st.integers(0, header)), data.draw(st.sampled_from([1, 1, 4, 8]))
        content[at : at + width] = data.draw(st.binary(min_size=width, max_size=width))
    damaged = whole.with_name("damaged.gguf")
    damaged.write_bytes(content)
    try:
        read_gguf_spec(damaged)
    except InputError as error:
        assert "\n" not in str(error)


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.text(max_size=2), max_size=3),
    st.lists(st.integers(-3, 300), max_size=40).map(lambda values: np.array(values, np.int64)),
    st.lists(st.floats(), max_size=40).map(np.array),
)


@given(data=st.data())
def test_a_header_with_any_value_under_a_key(data: st.DataObject, whole: Path) -> None:
    file = read_gguf(whole)
    key = data.draw(
        st.sampled_from([*file.metadata, "gemma3.rope.scaling.type", "gemma3.attention.key_length"])
    )
    value = data.draw(VALUES)
    try:
        spec = spec_from_gguf(replace(file, metadata={**file.metadata, key: value}))
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert parameters(spec).total > 0
