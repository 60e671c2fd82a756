"""Whole models from files: published configs against published totals, checkpoints' formats, GGUF's bytes."""

import csv
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader
from tiny_gguf import shape_fields, write_gguf

from twophase.errors import InputError
from twophase.model.cache import kv_bytes
from twophase.model.catalogue import Model, catalogue, load_model
from twophase.model.counts import parameters
from twophase.model.stored import weights_bytes

SHARED = os.environ.get("TWOPHASE_SHARED")
CONFIGS = Path(SHARED or "nowhere") / "data" / "configs"
FILES = sorted(CONFIGS.glob("*.json"))
published = pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED names no folder of published configs")

# transformers' class has 128,815 tokens whatever a flat file says; this one says 128,896.
OTHERWISE = {"stepfun-ai--Step-3.7-Flash": 128_896 - 128_815}

TINY: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
MATRICES = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64)  # of both layers
OTHERS = 2 * 64 * 64 + 5 * 64  # embedding, head, norms


@cache
def totals() -> dict[str, dict[str, str]]:
    with (CONFIGS / "params.csv").open() as file:
        return {row["file"]: row for row in csv.DictReader(file)}


@published
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_published_config_counts_as_published(path: Path) -> None:
    model = load_model(str(path))  # none of these is refused
    own, row = parameters(model.spec), totals()[path.stem]
    if not row["total_params_text"]:  # transformers knows no such architecture
        assert row["status"].startswith("ERR")
        return
    more = OTHERWISE.get(path.stem, 0) * model.spec.d_model
    assert own.total == int(row["total_params_text"]) + 2 * more
    assert own.active == int(row["active_params_text_incl_embed_and_head"]) + 2 * more
    assert own.active_without_embedding == int(row["active_excl_input_embedding"]) + more
    assert model.spec.tied_embeddings == (row["tied"] == "True")
    if row["total_with_vision"]:
        assert model.vision is not None
        seen = int(row["total_with_vision"]) - int(row["total_params_text"])
        assert model.vision.parameters == seen


@published
def test_an_entry_is_the_config_that_it_was_made_from() -> None:
    """Same counts, same bytes as stored, same cache, though the entry has a tenth of the keys."""
    compared = 0
    for name, entry in catalogue().items():
        for source in (entry["source"], *entry.get("also", ())):
            path = CONFIGS / f"{source.replace('/', '--')}.json"
            if path.is_file():
                assert _facts(load_model(name)) == _facts(load_model(str(path))), (name, source)
                compared += 1
    assert compared > 90


def _facts(model: Model) -> tuple[object, ...]:
    return (
        parameters(model.spec),
        weights_bytes(model.spec, model.storage),
        model.storage.kv,
        [kv_bytes(model.spec, context) for context in (1, 1000, 100_000)],
        model.vision.parameters if model.vision else None,
    )


def written(folder: Path, beside: dict[str, Any] | None = None, **more: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({**TINY, **more}))
    if beside is not None:
        (folder / "hf_quant_config.json").write_text(json.dumps(beside))
    return folder


def stored(path: Path) -> float:
    model = load_model(str(path))
    return weights_bytes(model.spec, model.storage)


def test_sixteen_bits_where_nothing_is_said(tmp_path: Path) -> None:
    assert stored(written(tmp_path)) == 2 * (MATRICES + OTHERS)


def test_what_lies_beside_a_config_says_how_it_is_stored(tmp_path: Path) -> None:
    """ModelOpt's file. FP8: a byte a weight and a float32 scale for each of 14 matrices."""
    beside = {
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    }
    folder = written(tmp_path, beside)
    model = load_model(str(folder))
    assert (model.storage.name, model.storage.kv) == ("fp8", "fp8")
    assert 0 <= stored(folder) - (MATRICES + 2 * OTHERS) <= 14 * 8
    assert stored(folder / "config.json") == stored(folder)


def test_what_lies_beside_is_read_for_what_it_leaves_out(tmp_path: Path) -> None:
    """NVFP4: 4 bits and a byte for each 16, and a float32 a matrix; attention left in 16 bits."""
    rules = {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head", "*self_attn*"]}
    mlp = 2 * 3 * 96 * 64
    expected = mlp * 9 / 16 + 2 * (MATRICES - mlp + OTHERS)
    assert 0 <= stored(written(tmp_path, {"quantization": rules})) - expected <= 6 * 8


def test_the_config_goes_before_what_lies_beside_it(tmp_path: Path) -> None:
    own = {
        "quant_method": "compressed-tensors",
        "config_groups": {"0": {"weights": {"num_bits": 4, "group_size": 32}}},
    }
    folder = written(tmp_path, {"quantization": {"quant_algo": "FP8"}}, quantization_config=own)
    assert stored(folder) == MATRICES * 4.5 / 8 + 2 * OTHERS


@pytest.mark.parametrize("beside", ["{", "[]", '{"quantization": {"quant_algo": "FP3"}}'])
def test_what_lies_beside_and_makes_no_sense_is_one_line(tmp_path: Path, beside: str) -> None:
    written(tmp_path)
    (tmp_path / "hf_quant_config.json").write_text(beside)
    with pytest.raises(InputError) as error:
        load_model(str(tmp_path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tied", [False, True])
def test_a_gguf_file_takes_the_bytes_of_its_tensors(tmp_path: Path, tied: bool) -> None:
    """As the gguf package counts them: Q8_0 blocks, queries in F16, norms in F32."""
    matrices = {"attn_q": (256, 256), "attn_k": (128, 256), "attn_v": (128, 256), "attn_output": (256, 256)}
    matrices |= {"ffn_gate": (512, 256), "ffn_up": (512, 256), "ffn_down": (256, 512)}
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (96, 256), "output_norm.weight": (256,)}
    for layer in range(2):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in matrices.items()}
        shapes |= {f"blk.{layer}.{name}.weight": (256,) for name in ("attn_norm", "ffn_norm")}
    if not tied:
        shapes["output.weight"] = (96, 256)
    formats = {name: GGMLQuantizationType.Q8_0 for name, shape in shapes.items() if len(shape) == 2}
    formats |= {name: GGMLQuantizationType.F16 for name in shapes if "attn_q" in name}
    path = write_gguf(
        tmp_path / "tiny.gguf",
        tensors={name: np.ones(shape) for name, shape in shapes.items()},
        formats=formats,
        **shape_fields(
            embedding_length=256, feed_forward_length=512, key_length=64, value_length=64, vocab_size=96
        ),
    )
    assert stored(path) == sum(tensor.n_bytes for tensor in GGUFReader(path).tensors)
