"""What `serve` says where the server's dependencies are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from twophase.errors import InputError

SERVER = {"fastapi", "starlette", "pydantic", "uvicorn", "prometheus_client"}


@contextmanager
def server_room() -> Iterator[None]:
    """Imports within need the server's extra; InputError says how to get it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in SERVER:
            raise
        raise InputError(
            f"the server needs {missing.name}: install the extra serve (pip install '.[serve]' in a clone)"
        ) from missing
