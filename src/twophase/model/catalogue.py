"""Models by name or by path."""

import os
import re
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
SOME = ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3")
NULL = "null"
TUNED = re.compile(r"(?:-(?:instruct|it|chat|base|hf|thinking))?(?:-v\d(?:\.\d)?)?(?:-\d{4})?$")
QUANTISED_BESIDE = "hf_quant_config.json"  # where ModelOpt says how a checkpoint is quantised


@dataclass(frozen=True, slots=True)
class Model:
    """A model as published: the network, the formats of its checkpoint, and what it sees with."""

    spec: ModelSpec
    storage: Storage
    vision: "Vision | None" = None


@cache
def _files() -> tuple[str, ...]:
    """Text of the catalogue's files, one a family: TOML tables by name, with the keys of config.json."""
    folder = resources.files(__package__).joinpath("published")
    files = sorted((each.name, each) for each in folder.iterdir() if each.name.endswith(".toml"))
    return tuple(file.read_text(encoding="utf-8") for _, file in files)


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Every entry by name: Hugging Face config keys, `title`, `source`, and `also`, its other names."""
    return {name: entry for text in _files() for name, entry in _entries(text).items()}


def entry_of(name: str) -> tuple[str, dict[str, Any]] | None:
    """(name, entry) of a model by its name or by where it is published (Qwen/Qwen3-8B), in any case.

    A tuning that has no entry of its own has the shape of the base: gemma-3-27b-it is gemma-3-27b.
    """
    asked = name.lower().replace(" ", "-")
    for wanted in dict.fromkeys((name.lower(), asked, TUNED.sub("", asked))):
        for text in _files():
            if f'"{wanted}"' in text.lower():  # so that one family's file is parsed, not all
                for own, entry in _entries(text).items():
                    if wanted in (own, entry["source"].lower(), *map(str.lower, entry.get("also", ()))):
                        return own, entry
    return None


def hub_id(name: str) -> str:
    """Where the catalogue's model lies on Hugging Face, a placeholder if unknown; a path stays as it is."""
    found = entry_of(name)
    if found is None or "/" in name:
        return name
    own, entry = found
    asked, also = name.lower().replace(" ", "-"), entry.get("also", ())
    if asked == own or asked in map(str.lower, also):
        return str(entry["source"])
    for each in also:
        if "/" in each and asked == each.rpartition("/")[2].lower().removeprefix("meta-"):
            return str(each)
    return f"<huggingface id of {name}>"  # a tuning of which the catalogue knows the shape alone


@cache
def _entries(text: str) -> dict[str, dict[str, Any]]:
    """`like` names an entry of the same file, whose keys hold where the entry has none of its own."""
    tables = tomllib.loads(text)

    def whole(name: str) -> dict[str, Any]:
        own = tables[name]
        base = whole(own["like"]) if "like" in own else {}
        return {**{key: value for key, value in base.items() if key != "also"}, **_with_nulls(own)}

    return {name: whole(name) for name in tables}


def _with_nulls(table: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null: `null` lists the keys that are so in config.json."""
    inner = {key: _with_nulls(value) if isinstance(value, dict) else value for key, value in table.items()}
    return {**inner, **dict.fromkeys(inner.pop(NULL, ()))}


def load_spec(name: str) -> ModelSpec:
    """A catalogue name (any case), a Hugging Face directory or config.json, or a GGUF file."""
    found = _find(name)
    if isinstance(found, tuple):
        own, entry = found
        return spec_from_config(entry, entry["title"], f"the catalogue's {own}")
    if found.suffix == ".gguf":
        from twophase.model.gguf_header import read_gguf_spec

        return read_gguf_spec(found)
    return read_hf_config(found)


def load_model(name: str) -> Model:
    """The same, with the formats in which the checkpoint stores its weights, and its vision part."""
    found = _find(name)
    if isinstance(found, tuple):
        own, entry = found
        return _from_config(entry, entry["title"], f"the catalogue's {own}")
    if found.suffix == ".gguf":
        from twophase.model.gguf_header import spec_from_gguf
        from twophase.model.gguf_parts import read_whole
        from twophase.model.gguf_storage import gguf_storage

        file = read_whole(found)
        return Model(spec_from_gguf(file), gguf_storage(file))
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


def _find(name: str) -> tuple[str, dict[str, Any]] | Path:
    """(name, entry) of the catalogue, or a path that is there."""
    path = Path(os.path.expanduser(name))  # unlike Path.expanduser, leaves an unknown user's ~ as it is
    known = entry_of(name)
    if known is not None:
        return known
    if path.suffix == ".gguf" or (name and os.path.exists(path)):  # Path.exists fails on a name too long
        return path
    if path.suffix == ".json" or "/" in name:
        hint = nearest(path.name, catalogue()) if path.suffix != ".json" else ""
        raise InputError(
            f"{name} does not exist, and no model is called so: give a directory, a config.json, a .gguf file"
            f" or a name{hint}"
        )
    hint = nearest(name, catalogue()) or f"; {len(catalogue())} are known, {', '.join(SOME)} among them"
    raise InputError(f"no model is called {name!r}{hint}")
