"""Memory that passes work in: kept from pass to pass, as large as the largest so far."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.kernels.packing import aligned

Array = NDArray[Any]
FLOAT32 = np.dtype(np.float32)


@dataclass(slots=True)
class Scratch:
    """What a pass leaves in it lasts until the next pass."""

    held: dict[str, Array] = field(default_factory=dict)

    def buffer(self, use: str, rows: int, columns: int, dtype: np.dtype[Any] = FLOAT32) -> Array:
        """[rows, columns], holding anything; one `use` is one piece of memory."""
        size = rows * columns * dtype.itemsize
        if use not in self.held or self.held[use].size < size:
            self.held.pop(use, None)  # freed before more is taken
            self.held[use] = aligned(size, np.uint8)
        return self.held[use][:size].view(dtype).reshape(rows, columns)

    @property
    def bytes(self) -> int:
        return sum(each.nbytes for each in self.held.values())
