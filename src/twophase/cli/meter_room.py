"""What the verbs of the meter say where its dependencies are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from twophase.errors import InputError

METER = {"httptools", "polars"}


@contextmanager
def meter_room() -> Iterator[None]:
    """Imports within need the meter's extra; InputError says how to get it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in METER:
            raise
        raise InputError(
            f"the meter needs {missing.name}: install the extra meter (pip install '.[meter]' in a clone)"
        ) from missing
