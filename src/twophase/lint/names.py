"""Which network a row means: published ids, catalogue names and loose spellings of them."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from twophase.errors import InputError, nearest
from twophase.model.catalogue import catalogue

# What says how a checkpoint is stored, as it stands in models' names.
FORMAT_WORDS: tuple[tuple[str, str], ...] = (
    (r"nvfp4|fp4", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"mxfp8", "mxfp8"),
    (r"fp8(?:[-_](?:dynamic|block|static|static[-_]pertensor|kv))*", "fp8"),
    (r"gptq[-_ ]?int8|int8|8[-_]?bits?|w8a8|w8a16", "int8"),
    (r"awq(?:[-_ ]?(?:4bit|int4))?|gptq(?:[-_ ]?(?:4bit|int4))?|int4|4[-_]?bits?|w4a16", "int4"),
    (r"i?q\d_(?:[01]|k(?:_[smlx]+)?|xxs|xs|nl|[sm])", ""),  # GGUF's: the format is the word itself
    (r"bf16|bfloat16", "bf16"),
    (r"fp16|float16", "fp16"),
)
FORMAT = re.compile("|".join(rf"\b(?:{words})\b" for words, _ in FORMAT_WORDS), re.IGNORECASE)
# Words that leave a network's shape as it is.
SAME_SHAPE = re.compile(
    r"\b(?:instruct|chat|base|it|hf|pt|thinking|reasoning|meta|gguf|mlx|dynamic|turbo|preview"
    r"|20\d\d|0\d\d\d|1[0-2]\d\d|2[4-9](?:0[1-9]|1[0-2])|v0\.\d)\b"
)
# Published under one name, the shape of another. Keys are as `network_of` makes them.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "llama7b": ("llama27b",),
    "llama13b": ("llama213b",),
    "llama70b": ("llama270b",),
    "llama3370b": ("llama3170b",),
    "deepseekr1": ("deepseekv3",),
    "deepseekv3": ("deepseekr1",),
    "deepseekv31": ("deepseekv3", "deepseekr1"),
    "deepseek671b": ("deepseekv3", "deepseekr1"),
    "kimik2": ("kimik2instruct",),
    "bloom": ("bloom176b",),
}


def network_of(name: str) -> tuple[str, str | None]:
    """(letters and digits that name a network, the format that the name states or None).

    "nvidia/Llama-3.1-8B-Instruct-FP8" is ("llama318b", "fp8"), as is "llama 3.1 8b fp8".
    """
    bare = re.sub(r"\([^()]*\)", " ", name).strip().rstrip("/").rsplit("/", 1)[-1].replace("--", "/")
    bare = bare.rsplit("/", 1)[-1].removesuffix(".json").lower()
    found = FORMAT.search(bare)
    words = re.sub(r"[-_\s]+", " ", FORMAT.sub(" ", bare))
    words = SAME_SHAPE.sub(" ", words)
    return re.sub(r"[^a-z0-9]", "", words), _format(found[0]) if found else None


def _format(word: str) -> str:
    named = next(name for words, name in FORMAT_WORDS if re.fullmatch(words, word, re.IGNORECASE))
    return named or word


def folder_models(folder: Path) -> dict[str, str]:
    """{ORG/NAME: path} of a folder's ORG--NAME.json, NAME.json or ORG/NAME/config.json.

    InputError where it is no folder, or holds none.
    """
    if not folder.is_dir():
        raise InputError(f"--models {folder}: no such folder; give one with ORG--NAME.json files")
    found = {path.stem.replace("--", "/"): str(path) for path in sorted(folder.glob("*.json"))}
    nested = sorted({*folder.glob("*/config.json"), *folder.glob("*/*/config.json")})
    found |= {path.parent.relative_to(folder).as_posix().replace("--", "/"): str(path) for path in nested}
    if not found:
        raise InputError(f"--models {folder} holds no ORG--NAME.json and no ORG/NAME/config.json")
    return found


@cache
def catalogue_models() -> dict[str, str]:
    """{published id or catalogue name: what load_model takes}."""
    return {entry["source"]: name for name, entry in catalogue().items()} | {
        name: name for name in catalogue()
    }


class Models:
    """Finds models by the names that rows give: by id, then by network; a folder's before the catalogue's."""

    def __init__(self, folder: Mapping[str, str] | None = None) -> None:
        self._sources = [each for each in (folder or {}, catalogue_models()) if each]
        self._exact = [{name.lower(): path for name, path in each.items()} for each in self._sources]
        self._networks = [_by_network(each) for each in self._sources]
        self._found: dict[str, str | None] = {}

    def find(self, name: str) -> str:
        """What load_model takes. InputError with the nearest names where no model is called so."""
        if name not in self._found:
            self._found[name] = self._search(name)
        found = self._found[name]
        if found is None:
            known = [each for models in self._sources for each in models]
            raise InputError(f"no model is called {name!r}{nearest(name, known)}")
        return found

    def _search(self, name: str) -> str | None:
        network, _ = network_of(name)
        for names, networks in zip(self._exact, self._networks, strict=True):
            if name.lower() in names:
                return names[name.lower()]
            for wanted in (network, *ALIASES.get(network, ())):
                if wanted in networks:
                    return networks[wanted]
        return None


def _by_network(models: Mapping[str, str]) -> dict[str, str]:
    """Of checkpoints of one network, one that is not quantised by its name goes first."""
    found: dict[str, str] = {}
    for name in sorted(models, key=lambda name: (network_of(name)[1] is not None, len(name))):
        network = network_of(name)[0]
        if network:
            found.setdefault(network, models[name])
    return found
