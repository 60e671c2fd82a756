"""Models by name or by path."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twophase.errors import InputError, nearest
from twophase.model.hf_config import is_wrapped, read_config, read_hf_config, spec_from_config
from twophase.model.quantization import Storage, read_storage
from twophase.model.spec import ModelSpec

if TYPE_CHECKING:
    from twophase.model.vision import Vision

# What only some models need is imported where they need it: readers of GGUF, and of vision towers.
SEEING = ("vision_config", "audio_config")
SEEING_UNSAID = ("step3p7",)  # flat files that leave out the tower which their class always has
QUANTISED_BESIDE = "hf_quant_config.json"  # where ModelOpt says how a checkpoint is quantised


@dataclass(frozen=True, slots=True)
class Model:
    """A model as published: the network, the formats of its checkpoint, and what it sees with."""

    spec: ModelSpec
    storage: Storage
    vision: "Vision | None" = None


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Hugging Face config keys by name, with `title` and `source`."""
    return tomllib.loads(resources.files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8"))


@cache
def _names() -> dict[str, str]:
    """Of the catalogue's models, by themselves and by where they are published: Qwen/Qwen3-8B is qwen3-8b."""
    published = {entry["source"].lower(): name for name, entry in catalogue().items()}
    return {**published, **{name: name for name in catalogue()}}


def load_spec(name: str) -> ModelSpec:
    """A catalogue name (any case), a Hugging Face directory or config.json, or a GGUF file."""
    found = _find(name)
    if isinstance(found, str):
        return spec_from_config(catalogue()[found], catalogue()[found]["title"], f"the catalogue's {found}")
    if found.suffix == ".gguf":
        from twophase.model.gguf_header import read_gguf_spec

        return read_gguf_spec(found)
    return read_hf_config(found)


def load_model(name: str) -> Model:
    """The same, with the formats in which the checkpoint stores its weights, and its vision part."""
    found = _find(name)
    if isinstance(found, str):
        entry = catalogue()[found]
        return _from_config(entry, entry["title"], f"the catalogue's {found}")
    if found.suffix == ".gguf":
        from twophase.model.gguf_file import read_gguf
        from twophase.model.gguf_header import read_gguf_spec
        from twophase.model.gguf_storage import gguf_storage

        return Model(read_gguf_spec(found), gguf_storage(read_gguf(found)))
    config, called, where = read_config(found)
    beside = found / QUANTISED_BESIDE if found.is_dir() else found.parent / QUANTISED_BESIDE
    if not config.get("quantization_config") and beside.is_file():
        config["quantization_config"] = read_config(beside)[0]
    return _from_config(config, called, where)


def _from_config(config: Mapping[str, Any], name: str, where: str) -> Model:
    spec, storage = spec_from_config(config, name, where), read_storage(config, where)
    said = is_wrapped(config) or any(config.get(key) for key in SEEING)
    if not said and config.get("model_type") not in SEEING_UNSAID:
        return Model(spec, storage)
    from twophase.model.vision import vision_of

    return Model(spec, storage, vision_of(config, where))


def _find(name: str) -> str | Path:
    """A catalogue's name, or a path that is there."""
    path = Path(os.path.expanduser(name))  # unlike Path.expanduser, leaves an unknown user's ~ as it is
    known = _names().get(name.lower())
    if known is not None:
        return known
    if path.suffix == ".gguf" or (name and os.path.exists(path)):  # Path.exists fails on a name too long
        return path
    if path.suffix == ".json" or "/" in name:
        raise InputError(
            f"{name} does not exist: give a model directory, a config.json, a .gguf file or a name"
        )
    hint = nearest(name, catalogue()) or f"; known are {', '.join(catalogue())}"
    raise InputError(f"no model is called {name!r}{hint}")
