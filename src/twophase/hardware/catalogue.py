"""The accelerators that are known by name; accelerators.toml beside this file holds them."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

from twophase.data_tables import table_of
from twophase.errors import InputError, nearest
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.entry import accelerator_of, read_entries

# Drivers put these before a name, people leave them out.
BRANDS = {
    *("nvidia", "amd", "intel", "google", "aws", "apple", "huawei"),
    *("geforce", "tesla", "instinct", "radeon", "cloud", "gpu"),
}


@cache
def _file() -> str:
    return files("twophase.hardware").joinpath("accelerators.toml").read_text(encoding="utf-8")


@cache
def accelerators() -> dict[str, Accelerator]:
    """All entries by name, in the file's order."""
    return {name: accelerator_of(name, entry, "datasheet") for name, entry in tomllib.loads(_file()).items()}


def load_accelerator(name: str, extra: Path | None = None) -> Accelerator:
    """By name, title, alias or the driver's name, in any case and punctuation; `extra`, a user's file, first.

    What stands in parentheses is a remark where the whole is not known: "A100-80GB SXM (330 W cap)".
    InputError with the nearest names where it is unknown.
    """
    own = read_entries(extra) if extra else {}
    exact = None if own else table_of(_file(), name)
    if exact is not None:
        return accelerator_of(name, exact, "datasheet")
    bare = re.sub(r"\([^()]*\)", "", name)
    for wanted in map(spelled, (name, bare)):
        for names in (names_of(own.values()), _catalogue_names()):
            if wanted in names:
                return names[wanted]
    known = [*own, *accelerators()]
    raise InputError(
        f"unknown accelerator {name!r}{nearest(name, known) or '; `twophase hardware` lists them'}"
    )


def spelled(name: str) -> str:
    """A name's letters and digits in small letters, without brands: NVIDIA H100-PCIe is h100pcie."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "".join(word for word in words if word not in BRANDS) or "".join(words)


def names_of(known: Iterable[Accelerator]) -> dict[str, Accelerator]:
    """Each accelerator by all its names as `spelled`; an own name goes before another's title or alias."""
    found: dict[str, Accelerator] = {}
    for accelerator in known:
        for name in (accelerator.title, *accelerator.aliases):
            found.setdefault(spelled(name), accelerator)
    return found | {spelled(each.name): each for each in known}


@cache
def _catalogue_names() -> dict[str, Accelerator]:
    return names_of(accelerators().values())
