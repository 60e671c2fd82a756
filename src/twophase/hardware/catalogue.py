"""The accelerators that are known by name; accelerators.toml beside this file holds them."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from twophase.errors import InputError, nearest
from twophase.hardware.accelerator import Accelerator


@cache
def accelerators() -> dict[str, Accelerator]:
    """All entries by name, in the file's order."""
    text = files("twophase.hardware").joinpath("accelerators.toml").read_text(encoding="utf-8")
    return {name: _accelerator(name, entry) for name, entry in tomllib.loads(text).items()}


def load_accelerator(name: str) -> Accelerator:
    """By name, in any case of letters; InputError with the nearest names where it is unknown."""
    known = accelerators()
    found = known.get(name.strip().lower())
    if found is None:
        hint = nearest(name, known) or f"; known are {', '.join(known)}"
        raise InputError(f"unknown accelerator {name!r}{hint}")
    return found


def _accelerator(name: str, entry: dict[str, Any]) -> Accelerator:
    return Accelerator(
        name=name,
        title=entry["title"],
        vendor=entry["vendor"],
        flops=entry["flops"],
        memory_bytes=entry["memory_bytes"],
        bandwidth=entry["bandwidth"],
        source=entry["source"],
    )
