"""The tokenizer of a Hugging Face directory: tokenizer.json, and who begins and ends a text."""

import json
from pathlib import Path
from typing import Any

import tokenizers

from twophase.engine.library_codec import LibraryCodec
from twophase.engine.text import Tokenizer
from twophase.errors import InputError, require_regular


def hf_tokenizer(directory: Path) -> Tokenizer:
    """What ends a text: the first of generation_config, config and tokenizer_config.json that says so.

    Whether BOS begins it: as tokenizer_config.json says, else as tokenizer.json does with an empty text.
    """
    path = directory / "tokenizer.json"
    if not path.exists():
        raise InputError(f"{path} is missing: the tokenizer of a Hugging Face directory is read from it")
    require_regular(path)
    try:
        library = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower type
        raise InputError(f"{path} is not a tokenizer that the tokenizers library can read: {error}") from None
    _require_known_tokens(path, library)
    library.no_truncation()
    library.no_padding()

    own, model, generation = (
        read_object(directory / name)
        for name in ("tokenizer_config.json", "config.json", "generation_config.json")
    )
    model = {**model.get("text_config", {}), **model}
    named = {name: text_of(own.get(name)) for name in ("bos_token", "eos_token")}
    ids = {name: library.token_to_id(token) for name, token in named.items() if token is not None}
    first = library.encode("").ids[:1]
    bos_id = _first(ids.get("bos_token"), generation.get("bos_token_id"), model.get("bos_token_id"))
    eos = _first(generation.get("eos_token_id"), model.get("eos_token_id"), ids.get("eos_token"))
    return Tokenizer(
        codec=LibraryCodec(library),
        bos_id=bos_id,
        eos_ids=frozenset(eos if isinstance(eos, list) else [] if eos is None else [eos]),
        add_bos=bool(_first(own.get("add_bos_token"), bos_id is not None and first == [bos_id])),
    )


def _require_known_tokens(path: Path, library: tokenizers.Tokenizer) -> None:
    """InputError where the post-processor names a token that it does not list: the library would panic."""
    state: dict[str, Any] = (
        json.loads(library.post_processor.__getstate__()) if library.post_processor else {}
    )
    for own in (state, *state.get("processors", ())):
        for piece in own.get("single", ()):
            name = piece.get("SpecialToken", {}).get("id")
            if name is not None and name not in own.get("special_tokens", {}):
                raise InputError(
                    f"{path} is damaged: its post-processor puts in a token {name}, which it does not list "
                    "among its special_tokens"
                )


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def text_of(token: Any) -> str | None:
    """A special token is written as a string, or as an object with its content."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file; an empty one where there is no file. InputError where it holds none."""
    if not path.exists():
        return {}
    require_regular(path)
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object")
    return content
