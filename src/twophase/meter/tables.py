"""Polars, where it is installed."""

from types import ModuleType

from twophase.errors import InputError


def polars() -> ModuleType:
    """The module; InputError says how to get it."""
    try:
        import polars as module
    except ModuleNotFoundError:
        raise InputError(
            "tables of requests need polars: install the extra meter (pip install 'twophase[meter]')"
        ) from None
    return module
