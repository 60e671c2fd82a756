"""twophase lint: which rows of benchmark results are physically impossible, or mislabelled."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twophase.cli.deployment import HardwareOption
from twophase.cli.options import JsonOption, PlainOption
from twophase.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twophase.lint.lint import Checked

StatedOption = Annotated[int | None, typer.Option(metavar="N", help="Of rows that don't state it.")]
IMPOSSIBLE = 1  # the exit status, as other linters have it


def lint(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Benchmark results: CSV, TSV, JSON or JSONL of any tool.")
    ],
    *,
    model: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="The model of all rows.", show_default=False)
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder of ORG--NAME.json or ORG/NAME/config.json files."),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="The accelerator of rows that name none.")
    ] = None,
    hardware: HardwareOption = None,
    tp: StatedOption = None,
    pp: StatedOption = None,
    ep: StatedOption = None,
    dp: StatedOption = None,
    weights: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="How weights are stored, where rows don't say.")
    ] = None,
    kv: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="How the KV cache is stored, where rows don't say.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME=COLUMN,...", help="Which column is which: ttft_ms=first,tpot_ms=rest."),
    ] = None,
    given: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,...", help="What rows leave open: input_tokens=1024,batch_is_resident=true."
        ),
    ] = None,
    flagged: Annotated[bool, typer.Option("--flagged", help="Show only rows with a flag.")] = False,
    json: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="One CSV table.")] = False,
    plain: PlainOption = False,
) -> int:
    """Hold measured results against the floor: what beats physics, and which assumption breaks there.

    The exit status is 1 where a row is impossible.
    """
    if json + csv + plain > 1:
        raise InputError("give one of --json, --csv and --plain")
    sizes = {"tp": tp, "pp": pp, "ep": ep, "dp": dp}
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise InputError(f"--{name} {size}: it must be a whole number, 1 or more")
    stated = {"gpu": gpu, "weights": weights, "kv": kv, **sizes}
    known = {name: str(value) for name, value in stated.items() if value is not None}

    from twophase.cli.progress import progress_bar
    from twophase.hardware.catalogue import load_accelerator
    from twophase.hardware.entry import read_entries
    from twophase.lint.lint import MOST_DEVICES
    from twophase.lint.lint import lint as lint_of
    from twophase.lint.names import Models, folder_models
    from twophase.lint.served import Sources
    from twophase.model.catalogue import load_model
    from twophase.results import read_points

    for name, size in sizes.items():
        if size is not None and size > MOST_DEVICES:
            raise InputError(f"--{name} {size}: at most {MOST_DEVICES:,}")
    sources = Sources(Models(folder_models(models) if models else None), model, hardware)
    if hardware is not None:
        read_entries(hardware)
    if model is not None:
        load_model(model)  # what all rows need is looked at before any
    if gpu is not None:
        load_accelerator(gpu, hardware)
    points = read_points(file, pairs("--columns", columns), known | pairs("--given", given))
    with progress_bar() as report:
        rows = lint_of(points, sources, lambda share: report("checking rows", share))
    show(rows, flagged=flagged, json=json, csv=csv, plain=plain)
    return IMPOSSIBLE if any(row.impossible for row in rows) else 0


def pairs(option: str, text: str | None) -> dict[str, str]:
    """NAME=VALUE,... as a dictionary; InputError where a part is no such pair."""
    found = {}
    for part in (text or "").split(",") if text is not None else []:
        name, equals, value = (each.strip() for each in part.partition("="))
        if not (name and equals and value):
            raise InputError(
                f"{option} {text}: give NAME=VALUE pairs with commas between, like ttft_ms=first"
            )
        found[name] = value
    return found


def show(rows: "Sequence[Checked]", *, flagged: bool, json: bool, csv: bool, plain: bool) -> None:
    from twophase.report import lint as render

    shown = [row for row in rows if row.flags] if flagged else rows
    if json:
        print(render.to_json(rows, shown))
    elif csv:
        print(render.to_csv(shown))
    elif plain or not sys.stdout.isatty():
        print(render.plain(rows, shown))
    else:
        from rich.console import Console

        render.rich(rows, shown, Console(highlight=False))
