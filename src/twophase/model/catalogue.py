"""Models by name or by path."""

import os
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from twophase.errors import InputError, nearest
from twophase.model.gguf_header import read_gguf_spec
from twophase.model.hf_config import read_hf_config, spec_from_config
from twophase.model.spec import ModelSpec


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Hugging Face config keys by name, with `title` and `source`."""
    return tomllib.loads(resources.files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8"))


def load_spec(name: str) -> ModelSpec:
    """A catalogue name (any case), a Hugging Face directory or config.json, or a GGUF file."""
    entry = catalogue().get(name.lower())
    if entry is not None:
        return spec_from_config(entry, entry["title"], f"the catalogue's {name.lower()}")
    path = Path(os.path.expanduser(name))  # unlike Path.expanduser, leaves an unknown user's ~ as it is
    if path.suffix == ".gguf":
        return read_gguf_spec(path)
    if name and os.path.exists(path):  # unlike Path.exists, False for a name too long or out of reach
        return read_hf_config(path)
    if path.suffix == ".json" or "/" in name:
        raise InputError(
            f"{name} does not exist: give a model directory, a config.json, a .gguf file or a name"
        )
    hint = nearest(name, catalogue()) or f"; known are {', '.join(catalogue())}"
    raise InputError(f"no model is called {name!r}{hint}")
