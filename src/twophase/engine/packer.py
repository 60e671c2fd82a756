"""Tensors into the panels of a network's arena, some rows at a time, in the format that each is kept in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from twophase.engine.bf16 import from_bf16, to_bf16
from twophase.engine.feed_forward import NOTHING
from twophase.engine.network import Compute, Norm
from twophase.engine.scratch import Array
from twophase.engine.tensors import WeightSource
from twophase.kernels.operands import GROUP
from twophase.kernels.packing import DTYPES, Panels, pack_panels, panel_rows, panel_sizes, x_bits
from twophase.kernels.quantising import quantise_panels

CHUNK_ROWS = 1 << 11  # read and converted at a time: what stays in cache; a multiple of 16
Progress = Callable[[float], None]
Format = Literal["bf16", "float32", "int8", "int4", "int8-a8", "int4-a8"]
# What an int4 model's head (and embedding, where they are one) is kept in: it is the most sensitive matrix.
HEADS: dict[Format, Format] = {"int4": "int8", "int4-a8": "int8-a8"}


@dataclass(frozen=True, slots=True)
class Formats:
    """Of the layers' matrices, of the head, and of what is looked up or routes, which is never quantised."""

    layers: Format
    head: Format
    plain: Format


def formats_of(compute: Compute, weights: Format | None) -> Formats:
    """weights: None for the engine's compute type."""
    chosen = weights or compute
    plain = chosen if chosen in ("bf16", "float32") else compute
    return Formats(chosen, HEADS.get(chosen, chosen), plain)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a matrix: a tensor's, in groups (heads) that are padded to `rows` rows each."""

    name: str
    rows: int
    groups: int = 1
    expert: int | None = None  # the tensor is of all experts: this one's


@dataclass(frozen=True, slots=True)
class Rows:
    """A matrix to be read by rows."""

    count: int
    read: Callable[[slice], Array]


@dataclass(slots=True)
class Packer:
    """Fills the arena from its start; rows and columns that pad are zero."""

    source: WeightSource
    arena: Array  # bytes
    formats: Formats
    progress: Progress
    used: int = 0

    def matrix(
        self, parts: Sequence[Part], columns: int, groups: int = 1, format: Format | None = None
    ) -> Panels:
        """Parts one below another, their columns in groups (heads) each padded to `columns` columns."""
        format = format or self.formats.layers
        n, k = sum(part.rows * part.groups for part in parts), groups * columns
        panels, start = self._take(n, k, format), 0
        dtype = np.dtype(np.uint16 if format == "bf16" else np.float32)
        for part in parts:
            for chunk in self._chunks(part, dtype):
                whole = np.zeros((len(chunk), groups, columns), dtype)
                split = chunk.reshape(len(chunk), groups, -1)
                whole[:, :, : split.shape[2]] = split
                rows = panel_rows(panels, start, start + len(chunk), n)
                if format in GROUP:
                    quantise_panels(whole.reshape(-1, k), format, rows)
                else:
                    pack_panels(whole.reshape(-1, k), rows.values)
                start += len(chunk)
        self.progress(self.used / self.arena.size)
        return panels

    def vector(self, name: str, size: int, groups: int = 1) -> Array:
        """float32, each group padded to `size`; empty where the model has none."""
        if name not in self.source.stored:
            return NOTHING
        values = convert(self.source.tensor(name), np.dtype(np.float32)).reshape(groups, -1)
        whole = np.zeros((groups, size), np.float32)
        whole[:, : values.shape[1]] = values
        return whole.reshape(-1)

    def norm(self, name: str, size: int) -> Norm:
        return Norm(self.vector(name, size), self.vector(f"{name}_bias", size))

    def _chunks(self, part: Part, dtype: "np.dtype[np.generic]") -> Iterator[Array]:
        """A part's rows in a type, some groups or some rows at a time, in whole panels."""
        tensor, rows, groups = self._rows_of(part), part.rows, part.groups
        own = tensor.count // groups
        if own == rows:  # nothing to pad: as one
            groups, own, rows = 1, groups * own, groups * rows
        for group in range(groups):
            for start in range(0, rows, CHUNK_ROWS):
                end = min(rows, start + CHUNK_ROWS)
                values = tensor.read(slice(group * own + start, group * own + min(own, end)))
                values = convert(values, dtype)
                yield np.pad(values, ((0, end - start - len(values)), (0, 0)))

    def _rows_of(self, part: Part) -> Rows:
        shape = self.source.stored[part.name].shape
        if part.expert is None:
            return Rows(shape[0], lambda rows: self.source.tensor(part.name, rows))
        matrix = self.source.tensor(part.name, slice(part.expert, part.expert + 1))[0]
        return Rows(shape[1], lambda rows: matrix[rows])

    def _take(self, n: int, k: int, format: Format) -> Panels:
        values, scales = panel_sizes(n, k, format)
        return Panels(self._bytes(values, DTYPES[format]), self._bytes(scales, np.uint16), x_bits(format))

    def _bytes(self, elements: int, dtype: DTypeLike) -> Array:
        size = elements * np.dtype(dtype).itemsize
        self.used += size
        return self.arena[self.used - size : self.used].view(dtype)


def convert(
    values: Array, dtype: "np.dtype[np.uint16] | np.dtype[np.float32] | np.dtype[np.generic]"
) -> Array:
    """Between float32 and bf16 bits."""
    if values.dtype == dtype:
        return values
    return from_bf16(values) if dtype == np.float32 else to_bf16(values)
