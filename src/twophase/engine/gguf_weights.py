"""Weights of a GGUF file, its quantised tensors dequantised by the gguf package as they are read."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from twophase.engine.tensors import Array, Shape, Stored, WeightSource, mapped, match_names
from twophase.errors import InputError
from twophase.model.gguf_file import TensorPlace, read_gguf
from twophase.model.spec import ModelSpec

PERMUTED = ("llama",)  # architectures whose rotary pairs lie side by side: their q and k are reordered
PLAIN: dict[Type, np.dtype[Any]] = {
    Type.F32: np.dtype("<f4"),
    Type.F16: np.dtype("<f2"),
    Type.BF16: np.dtype("<u2"),
}
CHUNK_ELEMENTS = 1 << 20  # dequantised at a time, by each thread
NAMES = {
    **{"embedding": "token_embd", "norm": "output_norm", "head": "output"},
    **{"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"},
    **{"gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"},
    **{"attention_norm": "attn_norm", "attention_post_norm": "post_attention_norm"},
    **{"mlp_norm": "ffn_norm", "mlp_post_norm": "post_ffw_norm"},
    **{"q_norm": "attn_q_norm", "k_norm": "attn_k_norm"},
}


def open_gguf(path: Path, spec: ModelSpec) -> WeightSource:
    """InputError where a tensor is missing, misshapen, cut off or of a type that can't be dequantised."""
    file = read_gguf(path)
    shapes = {name: place.shape for name, place in file.tensors.items()}
    names = match_names(str(path), spec, _own_name, shapes, "blk.")
    permuted = file.metadata.get("general.architecture") in PERMUTED
    size = path.stat().st_size
    stored = {}
    for name, own in names.items():
        place = file.tensors[own]
        form = _type(path, own, place)
        end = place.offset + int(np.prod(_byte_shape(place.shape, form)))
        if end > size:
            raise InputError(f"{path} is cut off: it has {size} bytes, and tensor {own} ends at {end}")
        order = _half_order(spec, name) if permuted else None
        stored[name] = Stored(place.shape, form.name, partial(_read, path, place, form, order))
    return WeightSource("real", stored)


def _own_name(name: str) -> str:
    *layer, leaf = name.split(".")
    matrix = leaf.removesuffix("_bias")
    block = f"blk.{layer[1]}." if layer else ""
    return f"{block}{NAMES[matrix]}.{'weight' if matrix == leaf else 'bias'}"


def _type(path: Path, own: str, place: TensorPlace) -> Type:
    """The tensor's type, tried on a block of zeros: which ones can be dequantised, only gguf knows."""
    try:
        form = Type(place.type_id)
    except ValueError:
        raise InputError(f"{path}: tensor {own} is of the unknown type {place.type_id}") from None
    block, block_bytes = gguf.GGML_QUANT_SIZES[form]
    try:
        gguf.dequantize(np.zeros((1, block_bytes), np.uint8), form)
    except NotImplementedError:
        raise InputError(f"{path}: tensor {own} is of type {form.name}, which can't be dequantised") from None
    if place.shape[-1] % block:
        raise InputError(
            f"{path} is damaged: rows of tensor {own} are not whole {form.name} blocks of {block}"
        )
    return form


def _byte_shape(shape: Shape, form: Type) -> Shape:
    block, block_bytes = gguf.GGML_QUANT_SIZES[form]
    return (*shape[:-1], shape[-1] // block * block_bytes)


def _half_order(spec: ModelSpec, name: str) -> NDArray[np.intp] | None:
    """Where in the file each row of a q or k lies: of every head first the even rows, then the odd ones."""
    *layer, leaf = name.split(".")
    if leaf.removesuffix("_bias") not in ("q", "k"):
        return None
    attention = spec.layers[int(layer[1])].attention
    heads = attention.heads if leaf.startswith("q") else attention.kv_heads
    return np.arange(heads * attention.head_dim).reshape(heads, -1, 2).swapaxes(1, 2).ravel()


def _read(path: Path, place: TensorPlace, form: Type, order: NDArray[np.intp] | None, rows: slice) -> Array:
    if form in PLAIN:
        values = mapped(path, PLAIN[form], place.offset, place.shape)
        values = values[rows] if order is None else values[order[rows]]
        return values.astype(np.float32, copy=False) if values.dtype == np.float16 else values
    blocks = mapped(path, np.dtype(np.uint8), place.offset, _byte_shape(place.shape, form))
    if blocks.ndim == 1:
        return gguf.dequantize(blocks, form)[rows]
    blocks = blocks[rows] if order is None else blocks[order[rows]]
    out = np.empty((len(blocks), place.shape[-1]), np.float32)
    step = max(1, CHUNK_ELEMENTS // place.shape[-1])

    def fill(start: int) -> None:
        out[start : start + step] = gguf.dequantize(blocks[start : start + step], form)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(0, len(blocks), step)))
    return out
