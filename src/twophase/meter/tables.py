"""Tables on disk, by Polars where it is installed."""

from pathlib import Path
from types import ModuleType
from typing import Any

from twophase.errors import InputError


def polars() -> ModuleType:
    """The module; InputError says how to get it."""
    try:
        import polars as module
    except ModuleNotFoundError:
        raise InputError(
            "tables of requests need polars: install the extra meter (pip install '.[meter]' in a clone)"
        ) from None
    return module


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """A table; InputError where there is none, or where it is damaged."""
    module = polars()
    if not path.is_file():
        raise InputError(
            f"{path} is not there: a run's folder has run.json, requests.parquet, events.parquet"
        )
    try:
        return module.read_parquet(path, columns=columns)
    except module.exceptions.PolarsError as error:
        raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from None
