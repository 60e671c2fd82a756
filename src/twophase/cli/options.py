"""Options that several verbs share, and how their values are read."""

import math
import os
import re
import stat
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from twophase.errors import InputError
from twophase.hardware.cores import cores

Load = Literal["real", "random"]
Compute = Literal["bf16", "float32"]

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]",
        help="A Hugging Face directory, a GGUF file, or a catalogue name.",
        show_default=False,
    ),
]
LoadOption = Annotated[
    Load | None, typer.Option(help="Real weights, or random ones of the same shapes.", show_default="real")
]
ComputeOption = Annotated[Compute, typer.Option(help="The engine's compute type.")]
ThreadsOption = Annotated[int | None, typer.Option(help="Processor cores to use.", show_default="all")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
PlainOption = Annotated[bool, typer.Option("--plain", help="Plain text on a terminal, too.")]
SloOption = Annotated[
    str | None, typer.Option("--slo", metavar="LIMITS", help="Goodput under ttft=500ms,tpot=30ms.")
]


def from_user(context: typer.Context, name: str) -> bool:
    """It was given, and is no default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def require_one_form(json: bool, plain: bool) -> None:
    if json and plain:
        raise InputError("give one of --json and --plain")


def threads_of(threads: int | None) -> int:
    available = cores()
    if threads is None:
        return available
    if not 1 <= threads <= available:
        raise InputError(f"--threads {threads}: this machine offers 1 to {available}")
    return threads


def request_of(text: str) -> tuple[int, int]:
    """IN:OUT, two positive counts of tokens."""
    sizes = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
    prompt, output = map(int, sizes.groups()) if sizes else (0, 0)
    if not (prompt and output):
        raise InputError(
            f"--request {text}: give prompt and output tokens as IN:OUT, both at least 1, like 2000:500"
        )
    return prompt, output


def require_writable(option: str, path: Path) -> None:
    """InputError before the work whose result is to be written, not after it."""
    what = f"{option} {path} can't be written"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise InputError(f"{what}: {error.strerror}") from None
    folder = path.parent
    if not folder.is_dir() or not os.access(folder if mode is None else path, os.W_OK):
        raise InputError(f"{what}: give a file in a folder that is there and yours")
    if mode is not None and not stat.S_ISREG(mode):
        raise InputError(f"{what}: it is a {'directory' if stat.S_ISDIR(mode) else 'device or a pipe'}")


def write(option: str, path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"{option} {path} can't be written: {error.strerror}") from None


def warn(line: str) -> None:
    print(f"twophase: warning: {line}", file=sys.stderr)


def positive(option: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise InputError(f"{option} {value:g}: must be greater than zero, and finite")
