"""Which operands weights of a type and rows of a type make."""

from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from twophase.kernels.byte_operands import ByteOperands
from twophase.kernels.operands import Operands


def operands_between(w: Any, x: Any) -> Operands:
    """Of arrays with these element types, as Numba names them."""
    return ByteOperands(w) if x == types.int8 else Operands(w, x)


@cache
def operands_of(w: np.dtype[Any], x: np.dtype[Any]) -> Operands:
    """The same of NumPy's types."""
    return operands_between(numba.from_dtype(w), numba.from_dtype(x))
