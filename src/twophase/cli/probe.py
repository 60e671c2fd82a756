"""twophase probe: this machine's roofs, measured, and those of each CUDA device that torch sees."""

from pathlib import Path
from typing import Annotated

import typer

from twophase.cli.needs import needs
from twophase.cli.options import JsonOption, ThreadsOption, positive, require_writable, threads_of, write
from twophase.cli.progress import progress_bar


def probe(
    *,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a file that --hardware reads.")
    ] = None,
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="About how long to measure.")] = 10.0,
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Measure this machine's peak arithmetic, memory bandwidth and memory, and each CUDA device's."""
    positive("--budget", budget)
    cores = threads_of(threads)
    if save is not None:
        require_writable("--save", save)
    with needs("engine"):
        from twophase.hardware.cuda import devices
        from twophase.hardware.probe import probe_cuda, probe_machine
    from twophase.hardware.entry import to_toml
    from twophase.report import hardware as render

    with progress_bar() as report:
        report("looking for devices", 0.0)
        others = devices()
        each_s = budget / (1 + len(others))
        share = 1 / (1 + len(others))
        found = [probe_machine(cores, each_s, lambda doing, done: report(doing, done * share))]
        for at, (index, title, memory) in enumerate(others, 1):
            report(f"measuring {title}", at * share)
            found.append(probe_cuda(index, title, memory, each_s))
    if save is not None:
        heading = f"Measured by twophase probe; --hardware {save.name} reads it."
        write("--save", save, to_toml({each.name: each for each in found}, heading).encode())
    print(render.to_json(found, one=False) if json else "\n\n".join(map(render.plain_one, found)))
