"""Options of the verbs that run the engine."""

from typing import TYPE_CHECKING, Annotated

import typer

from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.engine.kv import KVFormat
    from twophase.engine.packer import Format

KeptWeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="FORMAT",
        help="Keep matrices in bf16, int8, int4, int8-a8 or int4-a8.",
        show_default="--compute",
    ),
]
KeptKVOption = Annotated[
    str, typer.Option("--kv", metavar="FORMAT", help="Keep the KV cache in bf16 or int8.")
]


def kept_formats(weights: str | None, kv: str, compute: str) -> "tuple[Format | None, KVFormat]":
    """What the engine keeps matrices (None: the compute type) and KV cache in. InputError for all others."""
    formats: dict[str | None, Format | None] = {
        **{None: None, "bf16": "bf16", "int8": "int8", "int4": "int4"},
        **{"int8-a8": "int8-a8", "int4-a8": "int4-a8"},
    }
    if weights not in formats:
        raise InputError(f"--weights {weights}: the engine keeps bf16, int8, int4, int8-a8 or int4-a8")
    if kv not in ("bf16", "int8"):
        raise InputError(f"--kv {kv}: the engine keeps bf16 or int8")
    if compute == "float32":
        return formats[weights], "int8" if kv == "int8" else "float32"
    return formats[weights], "int8" if kv == "int8" else "bf16"
