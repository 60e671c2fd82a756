"""Rotary tables: each dimension pair's angle at each position, stretched as models that read further than
they were trained ask for it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError
from twophase.model.mixers import Rope

Array = NDArray[Any]


def rotary_tables(rope: Rope | None, dim: int, positions: int) -> tuple[Array, Array]:
    """cos and sin, [positions, half of the rotated dimensions], in float32 all through, as the reference
    implementations do; no columns without rotation.

    Long factors (longrope) serve the whole run as soon as `positions`, its longest sequence, exceeds the
    length that the model was trained on.
    """
    rotated = int(dim * rope.share) if rope else 0
    if not rope or not rotated:
        return np.zeros((positions, 0), np.float32), np.zeros((positions, 0), np.float32)
    exponents = np.arange(0, rotated, 2, dtype=np.float32) / np.float32(rotated)
    frequency = (1.0 / rope.theta**exponents).astype(np.float32)
    if rope.scaling == "linear":
        frequency /= np.float32(rope.factor)
    elif rope.scaling == "llama3":
        frequency = _llama3(rope, frequency)
    elif rope.scaling == "longrope":
        frequency = _longrope(rope, exponents, positions > rope.original_context)
    angles = np.arange(positions, dtype=np.float32)[:, None] * frequency
    size = np.float32(rope.attention_factor)
    return np.cos(angles) * size, np.sin(angles) * size


def _longrope(rope: Rope, exponents: Array, beyond: bool) -> Array:
    factors = rope.long_factors if beyond else rope.short_factors
    if len(factors) != len(exponents):
        raise InputError(
            f"the model's {'long' if beyond else 'short'} rope factors are {len(factors)}; its heads take "
            f"{len(exponents)}"
        )
    return np.asarray(1.0 / (np.array(factors, np.float32) * rope.theta**exponents), np.float32)


def _llama3(rope: Rope, frequency: Array) -> Array:
    """Long wavelengths are stretched, short ones kept, with a ramp between."""
    turns = rope.original_context * frequency / np.float32(2 * np.pi)
    ramp = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = np.clip(ramp, 0, 1).astype(np.float32)
    return np.asarray((1 - kept) * frequency / np.float32(rope.factor) + kept * frequency)
