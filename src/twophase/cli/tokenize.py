"""twophase tokenize: a text's token ids, as the engine would feed them to the model."""

import json
import os.path
import sys
from pathlib import Path
from typing import Annotated

import typer

from twophase.cli.needs import needs
from twophase.cli.options import JsonOption
from twophase.errors import InputError


def tokenize(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="- reads it from standard input.")],
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="A Hugging Face directory or a GGUF file; else the default."),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show a text's tokens: id and spelling, BOS first where the model wants it."""
    with needs("engine"):
        from twophase.engine.default_model import HOW_TO_GET_IT, default_model_path
        from twophase.engine.tokenizer import load_tokenizer

    path = default_model_path() if model is None else Path(os.path.expanduser(model))
    if path is None:
        raise InputError(f"there is no default tokenizer: {HOW_TO_GET_IT}")
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist: give a Hugging Face directory or a .gguf file")
    tokenizer = load_tokenizer(path)
    ids = tokenizer.encode(sys.stdin.read() if text == "-" else text)
    tokens = tokenizer.spell(ids)
    if as_json:
        print(json.dumps({"ids": ids, "tokens": tokens}, ensure_ascii=False))
        return
    for index, token in zip(ids, tokens, strict=True):
        print(f"{index:>8}  {token!r}")
