"""Numba's compiler with our settings, and compiled code cached on disk in a folder of our own."""

import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numba.core.config
import numba.extending

# GNU OpenMP reads it when it is loaded. Threads that wait for one another first spin: by default for
# milliseconds, which costs fivefold where another process holds one of the cores; 20 µs cost nothing.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# Numba's own annotation counts the typing context among a call's arguments.
intrinsic: Callable[..., Any] = numba.extending.intrinsic


@cache
def cache_folder() -> Path:
    """The user's cache folder, keyed by the kernels' own sources: Numba looks only at the file that a
    function stands in, not at those whose functions were inlined into it."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or (
        "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    )
    return Path(os.path.expanduser(base)) / "twophase" / f"kernels-{digest.hexdigest()[:16]}"


@cache
def can_cache() -> bool:
    """Whether compiled kernels can be kept; a warning says where not, once."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()):
            return True
    except OSError as error:
        warnings.warn(
            f"compiled kernels can't be kept in {cache_folder()} ({error.strerror}): they are compiled "
            "anew in every run",
            stacklevel=2,
        )
        return False


def kernel(*, parallel: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile in nopython mode, without bounds checks, caching the result in our own folder.

    Not `fastmath`: the order of every sum is fixed, so that a row's result never depends on its batch.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        config: Any = numba.core.config
        elsewhere, config.CACHE_DIR = config.CACHE_DIR, str(cache_folder())
        try:
            return numba.njit(
                function,
                parallel=parallel,
                nogil=True,
                boundscheck=False,
                error_model="numpy",
                cache=can_cache(),
            )
        finally:
            config.CACHE_DIR = elsewhere

    return compiled
