"""Weights of a Hugging Face directory: model.safetensors, or its shards and their index.

Format: https://huggingface.co/docs/safetensors (a length, a JSON header, the data). The package of
that name gives NumPy no bfloat16, so the header is read here and the data mapped.
"""

import json
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from twophase.engine.bf16 import from_bf16
from twophase.engine.tensors import Array, Shape, Stored, WeightSource, mapped, match_names
from twophase.errors import InputError, require_regular
from twophase.model.spec import ModelSpec

DTYPES: dict[str, np.dtype[Any]] = {"BF16": np.dtype("<u2"), "F16": np.dtype("<f2"), "F32": np.dtype("<f4")}
PREFIXES = ("model.", "language_model.model.", "model.language_model.", "language_model.", "")
HEADS = ("lm_head.weight", "language_model.lm_head.weight")
MLP = ("gate", "up", "down")
NORMS = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
SANDWICH_NORMS = {
    "attention_norm": "input_layernorm",
    "attention_post_norm": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "mlp_post_norm": "post_feedforward_layernorm",
}


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    dtype: str
    shape: Shape
    offset: int  # bytes from the file's start
    size: int  # bytes


def open_safetensors(directory: Path, spec: ModelSpec) -> WeightSource:
    """InputError where a file or a tensor is missing, misshapen, cut off or of a type we don't take."""
    places = {name: place for path in _files(directory) for name, place in _places(path).items()}
    shapes = {name: place.shape for name, place in places.items()}
    prefix = next((each for each in PREFIXES if f"{each}embed_tokens.weight" in places), "model.")
    names = match_names(
        str(directory), spec, partial(_own_name, spec, prefix, places), shapes, f"{prefix}layers."
    )
    return WeightSource(
        "real", {name: _stored(places[own], own, _offset(spec, name)) for name, own in names.items()}
    )


def _files(directory: Path) -> list[Path]:
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if single.exists():
        return [single]
    if not index.exists():
        raise InputError(
            f"{directory} has neither {single.name} nor {index.name}, where its weights would be"
        )
    require_regular(index)
    try:
        shards = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{index} is damaged: it should be JSON with a weight_map of tensors to files"
        ) from None
    for shard in shards:
        if Path(shard).name != shard:
            raise InputError(f"{index} names a file outside its folder: {shard}")
    return [directory / shard for shard in shards]


def _places(path: Path) -> dict[str, _Place]:
    require_regular(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 + length:
                raise InputError(f"{path} is cut off: it has {size} bytes, and its header alone {8 + length}")
            header: dict[str, Any] = json.loads(file.read(length))
        header.pop("__metadata__", None)
        places = {name: _place(path, entry, 8 + length) for name, entry in header.items()}
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise InputError(f"{path} is damaged: its header is not that of a safetensors file") from None
    end = max((place.offset + place.size for place in places.values()), default=0)
    if size < end:
        raise InputError(f"{path} is cut off: it has {size} bytes, and its tensors need {end}")
    inner = sorted((place.offset, place.size) for place in places.values())
    for (first, length), (second, _) in pairwise(inner):
        if first + length > second:
            raise InputError(f"{path} is damaged: its tensors overlap")
    return places


def _place(path: Path, entry: dict[str, Any], data: int) -> _Place:
    """`data`: where the header ends, from which offsets count."""
    start, end = entry["data_offsets"]
    sizes = (start, end, *entry["shape"])
    if not isinstance(entry["dtype"], str) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError
    return _Place(path, entry["dtype"], tuple(entry["shape"]), data + start, end - start)


def _own_name(spec: ModelSpec, prefix: str, places: dict[str, _Place], name: str) -> str:
    if name == "head":
        return next((each for each in HEADS if each in places), HEADS[0])
    if name in ("embedding", "norm"):
        return f"{prefix}{'embed_tokens' if name == 'embedding' else name}.weight"
    _, i, leaf = name.split(".")
    return f"{prefix}layers.{i}.{_own_leaf(spec, leaf)}"


def _own_leaf(spec: ModelSpec, leaf: str) -> str:
    norms = SANDWICH_NORMS if spec.sandwich_norms else NORMS
    if leaf in norms:
        return f"{norms[leaf]}.weight"
    if leaf in ("q_norm", "k_norm"):
        return f"self_attn.{leaf}.weight"
    matrix = leaf.removesuffix("_bias")
    block = "mlp" if matrix in MLP else "self_attn"
    return f"{block}.{matrix}_proj.{'weight' if matrix == leaf else 'bias'}"


def _offset(spec: ModelSpec, name: str) -> float:
    """What is added to a stored tensor: Gemma's norms are stored as their distance from one."""
    return float(spec.family.startswith("gemma") and name.endswith("norm"))


def _stored(place: _Place, own: str, offset: float) -> Stored:
    if place.dtype not in DTYPES:
        raise InputError(
            f"{place.path}: tensor {own} is of type {place.dtype}: {', '.join(DTYPES)} are taken"
        )
    if place.size != prod(place.shape) * DTYPES[place.dtype].itemsize:
        raise InputError(
            f"{place.path} is damaged: tensor {own} has {place.size} bytes, not those of its shape"
        )
    return Stored(place.shape, place.dtype, partial(_read, place, offset))


def _read(place: _Place, offset: float, rows: slice) -> Array:
    values = mapped(place.path, DTYPES[place.dtype], place.offset, place.shape)[rows]
    if place.dtype == "BF16" and not offset:
        return values
    values = from_bf16(values) if place.dtype == "BF16" else values.astype(np.float32, copy=False)
    return values + np.float32(offset) if offset else values
