"""The KV cache: blocks of 16 tokens, each a panel that attention reads as it reads weights."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.kernels.cache import BLOCK_SIZE, KVArrays
from twophase.kernels.packing import aligned, padded
from twophase.model.mixers import Attention, Rope
from twophase.model.spec import ModelSpec

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LayerKV:
    """One layer's blocks and its rotary tables."""

    arrays: KVArrays
    width: int  # head_dim, padded to whole lanes
    cosines: Array
    sines: Array


@dataclass(frozen=True, slots=True)
class KVPool:
    layers: tuple[LayerKV, ...]
    blocks: int

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for layer in self.layers for array in layer.arrays)


def pool_bytes(spec: ModelSpec, blocks: int, item_bytes: int) -> int:
    widths = (layer.attention.kv_heads * padded(layer.attention.head_dim) for layer in spec.layers)
    return 2 * blocks * BLOCK_SIZE * item_bytes * sum(widths)


def new_pool(spec: ModelSpec, blocks: int, compute: str, positions: int) -> KVPool:
    """An empty cache of `blocks` blocks for sequences of up to `positions` tokens."""
    dtype = np.uint16 if compute == "bf16" else np.float32
    tables = cache(lambda rope, dim: rotary_tables(rope, dim, positions))

    def layer(attention: Attention) -> LayerKV:
        width = padded(attention.head_dim)
        size = blocks * attention.kv_heads * width * BLOCK_SIZE
        cosines, sines = tables(attention.rope, attention.head_dim)
        nothing = np.zeros(0, np.float32)
        arrays = KVArrays(aligned(size, dtype), aligned(size, dtype), nothing, nothing)
        return LayerKV(arrays, width, cosines, sines)

    return KVPool(tuple(layer(each.attention) for each in spec.layers), blocks)


def rotary_tables(rope: Rope, dim: int, positions: int) -> tuple[Array, Array]:
    """cos and sin, [positions, dim / 2], in float32 all through, as the reference implementations do."""
    exponents = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    frequency = (1.0 / rope.theta**exponents).astype(np.float32)
    if rope.scaling == "linear":
        frequency /= np.float32(rope.factor)
    elif rope.scaling == "llama3":  # long wavelengths are stretched, short ones kept, with a ramp between
        turns = rope.original_context * frequency / np.float32(2 * np.pi)
        ramp = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
        kept = np.clip(ramp, 0, 1).astype(np.float32)
        frequency = (1 - kept) * frequency / np.float32(rope.factor) + kept * frequency
    angles = np.arange(positions, dtype=np.float32)[:, None] * frequency
    return np.cos(angles), np.sin(angles)
