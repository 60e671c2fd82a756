"""Weights of a Hugging Face directory: model.safetensors, or its shards and their index.

Format: https://huggingface.co/docs/safetensors (a length, a JSON header, the data). The package of
that name gives NumPy no bfloat16, so the header is read here and the data mapped.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from twophase.engine.checkpoint import Checkpoint, reordered, shifted
from twophase.engine.hf_names import layers_at, prefix_of, take
from twophase.engine.tensors import Array, Shape, Stored, WeightSource, expected_shapes, half_order, mapped
from twophase.errors import InputError, require_regular
from twophase.model.spec import ModelSpec

DTYPES: dict[str, np.dtype[Any]] = {"BF16": np.dtype("<u2"), "F16": np.dtype("<f2"), "F32": np.dtype("<f4")}
SHIFTED = ("gemma", "gemma2", "gemma3_text", "vaultgemma")  # norms are stored as their distance from one
SIDE_BY_SIDE = ("helium", "ernie4_5")  # rotary pairs of heads, instead of in halves
# What quantisers leave beside, or in place of, a matrix.
QUANTISED = {
    ".qweight": "GPTQ or AWQ",
    ".weight_packed": "compressed-tensors",
    ".weight_scale_inv": "FP8",
    ".weight_scale": "FP8, INT8 or FP4",
    ".quant_state.bitsandbytes__nf4": "bitsandbytes",
    ".SCB": "bitsandbytes",
    "_blocks": "MXFP4",
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
    _refuse_quantised(directory, places)
    shapes = expected_shapes(spec)
    checkpoint = Checkpoint(
        str(directory),
        spec.family,
        {name: place.shape for name, place in places.items()},
        lambda own: _stored(places[own], own),
    )
    prefix = prefix_of(spec, checkpoint)
    stored = {name: take(checkpoint, spec, prefix, name, shapes) for name in shapes}
    checkpoint.require_all_taken(layers_at(spec, prefix))
    if spec.family in SHIFTED:
        stored |= {name: shifted(each, 1.0) for name, each in stored.items() if name.endswith("norm")}
    if spec.family in SIDE_BY_SIDE:
        orders = {name: half_order(spec, name) for name in stored}
        stored |= {
            name: reordered(stored[name], order) for name, order in orders.items() if order is not None
        }
    return WeightSource("real", stored)


def _refuse_quantised(directory: Path, names: Iterable[str]) -> None:
    for name in names:
        for suffix, method in QUANTISED.items():
            if name.endswith(suffix):
                raise InputError(
                    f"{directory} is quantised ({method}: it has a tensor {name}); safetensors are taken in "
                    f"{', '.join(DTYPES)}, quantised weights as GGUF"
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


def _stored(place: _Place, own: str) -> Stored:
    if place.dtype not in DTYPES:
        raise InputError(
            f"{place.path}: tensor {own} is of type {place.dtype}: {', '.join(DTYPES)} are taken"
        )
    if place.size != prod(place.shape) * DTYPES[place.dtype].itemsize:
        raise InputError(
            f"{place.path} is damaged: tensor {own} has {place.size} bytes, not those of its shape"
        )
    return Stored(place.shape, place.dtype, partial(_read, place))


def _read(place: _Place, rows: slice) -> Array:
    values = mapped(place.path, DTYPES[place.dtype], place.offset, place.shape)[rows]
    return values if place.dtype == "BF16" else values.astype(np.float32, copy=False)
