"""twophase report: a kept run shown again, or several side by side."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twophase.cli.needs import needs
from twophase.cli.options import JsonOption, PlainOption, SloOption, require_writable, write
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.meter.goodput import Limit
    from twophase.meter.records import LoadRun

MOST_RUNS = 12


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders that bench, or diagnose URL, wrote.")
    ],
    *,
    slo: SloOption = None,
    definitions: Annotated[
        Literal["vllm", "guidellm", "aiperf", "sglang"] | None,
        typer.Option(help="Show the run by another meter's definitions, too."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="How many served it: throughput is shown per GPU.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="PATH", help="Write a run's page, too.")] = None,
    json: JsonOption = False,
    plain: PlainOption = False,
    vllm_block: Annotated[
        bool, typer.Option("--vllm-block", help="Only the block that vllm bench serve prints.")
    ] = False,
) -> None:
    """Show a kept run again; or two and more side by side, with paired differences from the first."""
    if json + plain + vllm_block > 1:
        raise InputError("give one of --json, --plain and --vllm-block")
    if len(folders) > MOST_RUNS:
        raise InputError(f"{len(folders)} runs: at most {MOST_RUNS} are compared at once")
    if len(folders) > 1 and (html is not None or definitions is not None or vllm_block):
        raise InputError("--html, --definitions and --vllm-block are of one run: give one folder")
    if gpus is not None and gpus < 1:
        raise InputError(f"--gpus {gpus}: it must be 1 or more")
    if html is not None:
        require_writable("--html", html)

    with needs("meter"):
        from twophase.meter.goodput import slo_of
        from twophase.meter.run_folder import load

        limits = slo_of(slo) if slo is not None else ()
        runs = [load(folder) for folder in folders]
    require_judged(runs, limits)
    if len(runs) > 1:
        compare_all(folders, runs, limits, gpus, json=json, plain=plain)
    else:
        show_one(runs[0], limits, gpus, definitions, html, json=json, plain=plain, vllm_block=vllm_block)


def require_judged(runs: "list[LoadRun]", limits: "tuple[Limit, ...]") -> None:
    """InputError where a simulated run doesn't know what a limit is on."""
    from twophase.report.bench_rows import simulated

    if any(map(simulated, runs)):
        from twophase.report.simulation_summary import require_known

        require_known(limits)


def show_one(
    run: "LoadRun",
    slo: "tuple[Limit, ...]",
    gpus: int | None,
    definitions: str | None,
    html: Path | None,
    *,
    json: bool,
    plain: bool,
    vllm_block: bool,
) -> None:
    from twophase.meter.definitions import project
    from twophase.meter.summary import summarise

    if dict(run.facts).get("loop") == "curves" and not (slo or definitions or vllm_block):
        show_curves(run, html, json=json, plain=plain)
        return
    summary = summarise(run, slo, gpus=gpus)
    projected = project(run.replies, definitions, run.target.endpoint) if definitions else ()
    tool = definitions or ""
    if html is not None:
        from twophase.report.bench_html import page

        write("--html", html, page(run, summary).encode())
    if json:
        from twophase.report.bench_json import to_json

        print(to_json(run, summary, projected, tool))
        return
    from twophase.report import bench, bench_vllm

    if vllm_block:
        print(bench_vllm.vllm_block(run, summary))
    elif plain or not sys.stdout.isatty():
        print(bench.plain(run, summary, projected, tool))
    else:
        bench.render(run, summary, None, projected, tool)
    if html is not None:
        print(f"\nThe page: {html}")


def show_curves(run: "LoadRun", html: Path | None, *, json: bool, plain: bool) -> None:
    """A run that `twophase diagnose URL` kept: its laws are fitted again, without floors beside."""
    from twophase.cli.diagnose_url import show
    from twophase.meter.curves import rebuilt
    from twophase.meter.own_error import own_error
    from twophase.meter.verdict import judge
    from twophase.report.bench_curves import ServerDiagnosis

    curves = rebuilt(run.replies, run.ended_s - run.began_s)
    finished = [each for each in run.replies if each.outcome == "finished"]
    own = ServerDiagnosis(run, curves, judge(curves), own_error(finished, "sent", run.lag))
    if html is not None:
        from twophase.report.bench_curves_html import page

        write("--html", html, page(own).encode())
    show(own, as_json=json, plain=plain)
    if html is not None and not json:
        print(f"\nThe page: {html}")


def compare_all(
    folders: "list[Path]",
    runs: "list[LoadRun]",
    slo: "tuple[Limit, ...]",
    gpus: int | None,
    *,
    json: bool,
    plain: bool,
) -> None:
    from twophase.meter.comparison import compare
    from twophase.meter.summary import summarise
    from twophase.report import bench_compare as render
    from twophase.report.bench_terminal import show

    found = [
        render.Compared(
            name, run, summarise(run, slo, gpus=gpus), compare(runs[0], run) if run is not runs[0] else None
        )
        for name, run in zip(names_of(folders), runs, strict=True)
    ]
    if json:
        print(render.to_json(found))
    elif plain or not sys.stdout.isatty():
        print(render.plain(found))
    else:
        show(render.blocks(found))


def names_of(folders: list[Path]) -> list[str]:
    """Each by its last part; by its place where two have the same one."""
    last = [folder.resolve().name for folder in folders]
    return [name if last.count(name) == 1 else f"{name} #{at}" for at, name in enumerate(last, 1)]
