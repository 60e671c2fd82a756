"""What becomes of a run that has been measured: its folder, what is shown, the exit status."""

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twophase.ending import INTERRUPTED
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.meter.plan import Plan
    from twophase.meter.records import LoadRun

BROKEN = 1


def keeping_place(out: Path | None) -> Path:
    """Where the run goes, which must be free, and to be written, before anything is measured."""
    folder = Path("twophase-runs") if out is None else out
    try:
        if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"--out {out} is there already: give a folder that is new, or empty")
        there = folder.absolute() if out is None else folder.absolute().parent
        while not there.exists():
            there = there.parent
        os.rmdir(tempfile.mkdtemp(prefix=".twophase-", dir=there))
    except OSError as error:
        raise InputError(f"--out {folder} can't be written: {error.strerror}") from None
    return folder


def finish(
    run: "LoadRun",
    plan: "Plan",
    arguments: dict[str, Any],
    folder: Path,
    gpus: int | None,
    definitions: str | None,
    *,
    json: bool,
    plain: bool,
) -> int:
    """Keep the run, show it, and say by the exit status whether it is whole."""
    from twophase.meter.definitions import project
    from twophase.meter.summary import summarise
    from twophase.report import bench as render
    from twophase.report import bench_json
    from twophase.report.bench_html import page

    summary = summarise(run, plan.slo, gpus=gpus)
    projected = project(run.replies, definitions, run.target.endpoint) if definitions else ()
    tool = definitions or ""
    folder = folder / name_of(run) if arguments["out"] is None else folder
    lost: InputError | None = None
    try:  # before it is shown to somebody who may have gone; what can't be kept is shown all the same
        keep(folder, run, arguments, lambda run: page(run, summary))
    except InputError as error:
        lost = error
    if json:
        print(bench_json.to_json(run, summary, projected, tool))
    elif plain or not sys.stdout.isatty():
        print(render.plain(run, summary, projected, tool))
    else:
        render.render(run, summary, None, projected, tool)
    if lost is not None:
        sys.stdout.flush()
        raise lost
    if not json:
        print(f"\nThe run: {folder}")
    if run.partial == "interrupted":
        return INTERRUPTED
    return BROKEN if run.partial or not summary.of("finished") else 0


def name_of(run: "LoadRun") -> str:
    """Of a run's folder: when, and of which model."""
    model = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in run.target.model)
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}-{model.strip('-.')[-40:]}"


def keep(folder: Path, run: "LoadRun", arguments: dict[str, Any], page: "Callable[[LoadRun], str]") -> None:
    from twophase.meter.run_folder import save

    plain_arguments = {
        name: value if isinstance(value, int | float | str | bool | None) else str(value)
        for name, value in arguments.items()
    }
    save(folder, run, plain_arguments, page)
