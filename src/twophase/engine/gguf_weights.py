"""Weights of a GGUF file, its quantised tensors dequantised by the gguf package as they are read."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from twophase.engine.checkpoint import Checkpoint
from twophase.engine.gguf_names import own_name, take
from twophase.engine.tensors import Array, Shape, Stored, WeightSource, expected_shapes, half_order, mapped
from twophase.errors import InputError
from twophase.model.gguf_file import TensorPlace, read_gguf
from twophase.model.gguf_parts import parts_of
from twophase.model.spec import ModelSpec

# Architectures whose rotary pairs lie side by side (llama.cpp's LLAMA_ROPE_TYPE_NORM).
PERMUTED = (
    *("llama", "mistral3", "granite", "granitemoe", "smollm3", "arcee", "internlm2", "baichuan"),
    "ernie4_5",
)
PLAIN: dict[Type, np.dtype[Any]] = {
    Type.F32: np.dtype("<f4"),
    Type.F16: np.dtype("<f2"),
    Type.BF16: np.dtype("<u2"),
}
CHUNK_ELEMENTS = 1 << 20  # dequantised at a time, by each thread


def open_gguf(path: Path, spec: ModelSpec) -> WeightSource:
    """`path`: the file, or any of those into which the model was split.

    InputError where a tensor is missing, misshapen, cut off or of a type that can't be dequantised.
    """
    parts = parts_of(read_gguf(path, texts=False))
    places = {name: (part.path, place) for part in parts for name, place in part.tensors.items()}
    sizes = {part.path: part.path.stat().st_size for part in parts}
    rotated = _reordered(parts[0].metadata.get("general.architecture"), spec)

    def stored(own: str) -> Stored:
        at, place = places[own]
        form = _type(at, own, place)
        end = place.offset + prod(_byte_shape(place.shape, form))
        if end > sizes[at]:
            raise InputError(f"{at} is cut off: it has {sizes[at]} bytes, and tensor {own} ends at {end}")
        return Stored(place.shape, form.name, partial(_read, at, place, form, rotated.get(own)))

    shapes = expected_shapes(spec)
    own_shapes = {name: place.shape for name, (_, place) in places.items()}
    checkpoint = Checkpoint(str(path), spec.family, own_shapes, stored)
    found = {name: take(checkpoint, name, shapes) for name in shapes}
    checkpoint.require_all_taken("blk.")
    return WeightSource("real", found)


def _reordered(architecture: object, spec: ModelSpec) -> dict[str, NDArray[np.intp]]:
    """Of each q and k whose rows the file holds in another order, where each of them lies."""
    if architecture not in PERMUTED:
        return {}
    orders = {name: half_order(spec, name) for name in expected_shapes(spec)}
    return {own_name(name): order for name, order in orders.items() if order is not None}


def _type(path: Path, own: str, place: TensorPlace) -> Type:
    try:
        form = Type(place.type_id)
    except ValueError:
        raise InputError(f"{path}: tensor {own} is of the unknown type {place.type_id}") from None
    if not _can_be_dequantised(form):
        raise InputError(f"{path}: tensor {own} is of type {form.name}, which can't be dequantised")
    block, _ = gguf.GGML_QUANT_SIZES[form]
    if place.shape[-1] % block:
        raise InputError(
            f"{path} is damaged: rows of tensor {own} are not whole {form.name} blocks of {block}"
        )
    return form


@cache
def _can_be_dequantised(form: Type) -> bool:
    """Tried on a block of zeros: only gguf knows."""
    try:
        gguf.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[form][1]), np.uint8), form)
    except NotImplementedError:
        return False
    return True


def _byte_shape(shape: Shape, form: Type) -> Shape:
    block, block_bytes = gguf.GGML_QUANT_SIZES[form]
    return (*shape[:-1], shape[-1] // block * block_bytes)


def _read(path: Path, place: TensorPlace, form: Type, order: NDArray[np.intp] | None, rows: slice) -> Array:
    if form in PLAIN:
        values = mapped(path, PLAIN[form], place.offset, place.shape)
        values = values[rows] if order is None else values[order[rows]]
        return values.astype(np.float32, copy=False) if values.dtype == np.float16 else values
    blocks = mapped(path, np.dtype(np.uint8), place.offset, _byte_shape(place.shape, form))
    if blocks.ndim == 1:
        return gguf.dequantize(blocks, form)[rows]
    blocks = blocks[rows] if order is None else blocks[order[rows]]
    shape = (*blocks.shape[:-1], place.shape[-1])
    return _dequantised(blocks.reshape(-1, blocks.shape[-1]), form, shape[-1]).reshape(shape)


def _dequantised(blocks: NDArray[np.uint8], form: Type, columns: int) -> Array:
    """float32, some rows at a time in each thread."""
    out = np.empty((len(blocks), columns), np.float32)
    step = max(1, CHUNK_ELEMENTS // columns)

    def fill(start: int) -> None:
        out[start : start + step] = gguf.dequantize(blocks[start : start + step], form)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(0, len(blocks), step)))
    return out
