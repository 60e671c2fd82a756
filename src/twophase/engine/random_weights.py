"""Random weights of a model's shapes: the same work and the same bytes as the real ones."""

from functools import partial
from math import prod
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from twophase.engine.bf16 import to_bf16
from twophase.engine.tensors import Array, Shape, Stored, WeightSource, expected_shapes
from twophase.model.spec import ModelSpec

STD = 0.02  # as most models are initialised
BLOCK = 1_000_003  # values drawn, then repeated; a prime, so that rows don't repeat


def random_weights(spec: ModelSpec, seed: int = 0) -> WeightSource:
    """Normal values in bfloat16, the same for the same seed; norms are one."""
    block = to_bf16(np.random.default_rng(seed).normal(0, STD, BLOCK))
    stored = {
        name: Stored(shape, "F32", partial(_ones, shape))
        if name.endswith("norm")
        else Stored(shape, "BF16", partial(_tile, block, name, shape))
        for name, shape in expected_shapes(spec).items()
    }
    return WeightSource("random", stored)


def _ones(shape: Shape, rows: slice) -> Array:
    return np.ones(shape, np.float32)[rows]


def _tile(block: NDArray[np.uint16], name: str, shape: Shape, rows: slice) -> Array:
    """Rows of the tensor, which begins in the block where its name says, and goes round and round."""
    width = prod(shape[1:])
    start, stop, step = rows.indices(shape[0])
    begin = (crc32(name.encode()) + start * width) % len(block)
    values = np.resize(np.roll(block, -begin), ((stop - start), width))
    return values[::step].reshape(-1, *shape[1:])
