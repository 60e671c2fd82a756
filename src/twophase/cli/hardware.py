"""twophase hardware: the accelerators known by name, or all about one of them."""

import sys
from typing import Annotated

import typer

from twophase.cli.deployment import HardwareOption
from twophase.cli.options import JsonOption, PlainOption, require_one_form


def hardware(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show all about this one.")] = None,
    *,
    hardware: HardwareOption = None,
    json: JsonOption = False,
    plain: PlainOption = False,
) -> None:
    """List the accelerators that are known by name, or show one with the source of each figure."""
    require_one_form(json, plain)

    from twophase.hardware.catalogue import accelerators, load_accelerator
    from twophase.hardware.entry import read_entries
    from twophase.report import hardware as render

    if name is None:
        own = read_entries(hardware) if hardware else {}
        found = list((accelerators() | own).values())
    else:
        found = [load_accelerator(name, hardware)]
    if json:
        print(render.to_json(found, one=name is not None))
    elif plain or not sys.stdout.isatty():
        print(render.plain_table(found) if name is None else render.plain_one(found[0]))
    else:
        from rich.console import Console

        console = Console(highlight=False)
        if name is None:
            render.rich_table(found, console)
        else:
            render.rich_one(found[0], console)
