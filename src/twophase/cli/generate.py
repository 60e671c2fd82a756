"""twophase generate: speak, and say what each phase took."""

from typing import Annotated

import typer

from twophase.cli.options import ComputeOption, JsonOption, LoadOption, ThreadsOption


def generate(
    prompts: Annotated[
        list[str], typer.Argument(metavar="PROMPT...", help="One text, or several in a batch.")
    ],
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="As in diagnose.")] = None,
    *,
    max_tokens: Annotated[int, typer.Option(help="Output tokens at the most.")] = 64,
    load: LoadOption = None,
    compute: ComputeOption = "bf16",
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Continue a prompt greedily, streaming, then print both phases' timings."""
