"""Numba's compiler with our settings, and compiled code cached on disk in a folder of our own."""

import os
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numba.extending

from twophase.compile_cache import cache_folder, kept_in, make_writable

FOLDER = cache_folder(Path(__file__).parent)

# GNU OpenMP reads it when it is loaded. Threads that wait for one another first spin: by default for
# milliseconds, which costs fivefold where another process holds one of the cores; 20 µs cost nothing.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# Numba's own annotation counts the typing context among a call's arguments.
intrinsic: Callable[..., Any] = numba.extending.intrinsic


@cache
def can_cache() -> bool:
    """Whether compiled kernels can be kept; a warning says where not, once."""
    try:
        make_writable(FOLDER)
    except OSError as error:
        warnings.warn(
            f"compiled kernels can't be kept in {FOLDER} ({error.strerror}): they are compiled anew in "
            "every run",
            stacklevel=2,
        )
        return False
    return True


def kernel(function: Callable[..., Any]) -> Any:
    """Compile in nopython mode, without bounds checks, caching the result in our own folder.

    Not `fastmath`: the order of every sum is fixed, so that a row's result never depends on its batch.
    """
    with kept_in(FOLDER):
        return numba.njit(function, nogil=True, boundscheck=False, error_model="numpy", cache=can_cache())
