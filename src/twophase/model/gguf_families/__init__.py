"""GGUF architectures, one function a family: a header's checked keys and tensors -> config.json's keys."""

from twophase.errors import InputError
from twophase.model.gguf_families import dense, gemma, hybrids, mixtures
from twophase.model.gguf_families.common import Config
from twophase.model.gguf_file import GGUFFile
from twophase.model.gguf_keys import Header, header_of, in_line

# By general.architecture, as llama.cpp names them (gguf.constants.MODEL_ARCH_NAMES).
TRANSLATORS = dense.TRANSLATORS | gemma.TRANSLATORS | mixtures.TRANSLATORS | hybrids.TRANSLATORS


def translate(file: GGUFFile) -> tuple[Header, Config]:
    """InputError where the architecture, or a key that it needs, is not known."""
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in TRANSLATORS:
        raise InputError(
            f"{file.path}: architecture {in_line(architecture)} is not known here; "
            f"known are {', '.join(TRANSLATORS)}"
        )
    header = header_of(file, architecture)
    return header, TRANSLATORS[architecture](header)
