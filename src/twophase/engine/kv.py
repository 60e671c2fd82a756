"""The KV cache: blocks of 16 tokens, each a panel that attention reads as it reads weights."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twophase.engine.rotary import rotary_tables
from twophase.kernels.cache import BLOCK_SIZE, KVArrays
from twophase.kernels.packing import aligned, padded
from twophase.model.mixers import Attention
from twophase.model.spec import ModelSpec

Array = NDArray[Any]
KVFormat = Literal["bf16", "float32", "int8"]
DTYPES: dict[str, np.dtype[Any]] = {
    "bf16": np.dtype(np.uint16),
    "float32": np.dtype(np.float32),
    "int8": np.dtype(np.int8),
}


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
    positions: int  # of the longest sequence that it is for

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for layer in self.layers for array in layer.arrays)


def pool_bytes(spec: ModelSpec, blocks: int, kv: KVFormat) -> int:
    """Keys and values of every layer, and for int8 a float32 scale for each token and KV head of both."""
    scale_bytes = 4 if kv == "int8" else 0
    heads = (
        layer.attention.kv_heads * (padded(layer.attention.head_dim) * DTYPES[kv].itemsize + scale_bytes)
        for layer in spec.layers
    )
    return 2 * blocks * BLOCK_SIZE * sum(heads)


def new_pool(spec: ModelSpec, blocks: int, kv: KVFormat, positions: int) -> KVPool:
    """An empty cache of `blocks` blocks for sequences of up to `positions` tokens.

    kv: float32 only where the network computes in float32; bf16 and int8 with any.
    """
    tables = cache(lambda rope, dim: rotary_tables(rope, dim, positions))

    def layer(own: Attention) -> LayerKV:
        width = padded(own.head_dim)
        size = blocks * own.kv_heads * width * BLOCK_SIZE
        scales = blocks * own.kv_heads * BLOCK_SIZE if kv == "int8" else 0
        arrays = KVArrays(
            aligned(size, DTYPES[kv]),
            aligned(size, DTYPES[kv]),
            aligned(scales, np.float32),
            aligned(scales, np.float32),
        )
        return LayerKV(arrays, width, *tables(own.rope, own.head_dim))

    return KVPool(tuple(layer(each.attention) for each in spec.layers), blocks, positions)
