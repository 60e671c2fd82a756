"""A checkpoint under its own names: tensors are taken out one by one, turned, split or stacked to ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from twophase.engine.bf16 import from_bf16
from twophase.engine.tensors import ALL_ROWS, Array, Shape, Stored
from twophase.errors import InputError

# Computed from the description instead; and GPT-2's causal mask, which old files hold.
UNUSED = ("rotary_emb.", "rope_freqs", "rope_factors", "rot_embd", ".attn.bias", ".attn.masked_bias")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    where: str
    family: str  # as errors call the model
    shapes: Mapping[str, Shape]  # of every tensor by its own name
    open: Callable[[str], Stored]  # InputError where it is cut off, or of a type that is not taken
    taken: set[str] = field(default_factory=set)

    def __contains__(self, own: str) -> bool:
        return own in self.shapes

    def take(self, own: str, shape: Shape) -> Stored:
        """InputError where it is missing or misshapen."""
        if own not in self.shapes:
            raise InputError(f"{self.where} has no tensor {own}, which this {self.family} model needs")
        if self.shapes[own] != shape:
            found, ours = (" × ".join(map(str, each)) for each in (self.shapes[own], shape))
            raise InputError(f"{self.where}: tensor {own} is {found}, but the model's is {ours}")
        self.taken.add(own)
        return self.open(own)

    def take_part(self, own: str, shapes: Sequence[Shape], at: int, turned: bool = False) -> Stored:
        """Of tensors that lie one below another (each expert's by itself) in one, the one `at`.

        turned: the file holds it as [in, out].
        """
        axis = max(0, len(shapes[0]) - 2)
        rows = [shape[axis] for shape in shapes]
        whole = (*shapes[0][:axis], sum(rows), *shapes[0][axis + 1 :])
        turned &= len(whole) > 1
        stored = self.take(own, whole[::-1] if turned else whole)
        if turned:
            stored = _turned(stored)
        if len(shapes) == 1:
            return stored
        return _part(stored, axis, sum(rows[:at]), rows[at])

    def take_stacked(self, own: Sequence[str], shape: Shape) -> Stored:
        """Experts that lie apart."""
        parts = [self.take(each, shape) for each in own]
        if len({each.format for each in parts}) > 1:
            raise InputError(f"{self.where}: experts differ in type from {own[0]}; they must be of one")
        return Stored((len(parts), *shape), parts[0].format, partial(_read_stacked, parts))

    def require_all_taken(self, layers: str) -> None:
        """InputError where a layer (names begin with `layers`) has a tensor that no one took."""
        for own in self.shapes:
            if own.startswith(layers) and own not in self.taken and not any(part in own for part in UNUSED):
                raise InputError(
                    f"{self.where} has a tensor {own}, for which a {self.family} model as described has no "
                    "place"
                )


def shifted(stored: Stored, offset: float) -> Stored:
    """With a number added to every value."""

    def read(rows: slice) -> Array:
        values = stored.read(rows)
        exact = from_bf16(values) if values.dtype == np.uint16 else values
        return exact + np.float32(offset)

    return Stored(stored.shape, stored.format, read)


def reordered(stored: Stored, order: NDArray[np.intp]) -> Stored:
    """Its rows in another order."""
    return Stored(stored.shape, stored.format, lambda rows: stored.read(ALL_ROWS)[order[rows]])


def as_row(stored: Stored) -> Stored:
    """A vector as a matrix of one row."""
    return Stored((1, *stored.shape), stored.format, lambda rows: stored.read(ALL_ROWS)[None][rows])


def _turned(stored: Stored) -> Stored:
    return Stored(stored.shape[::-1], stored.format, lambda rows: stored.read(ALL_ROWS)[:, rows].T)


def _part(stored: Stored, axis: int, start: int, length: int) -> Stored:
    """`length` of the rows (axis 0), or of each expert's rows (axis 1)."""
    shape = (*stored.shape[:axis], length, *stored.shape[axis + 1 :])

    def read(rows: slice) -> Array:
        if axis:
            return stored.read(rows)[:, start : start + length]
        first, last, step = rows.indices(length)
        return stored.read(slice(start + first, start + last, step))

    return Stored(shape, stored.format, read)


def _read_stacked(parts: Sequence[Stored], rows: slice) -> Array:
    chosen = [each.read(ALL_ROWS) for each in parts[rows]]
    return np.stack(chosen) if chosen else np.empty((0, *parts[0].shape), np.float32)
