"""A load run in the terminal, and as plain aligned text where it is not one."""

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from twophase.meter.definitions import Projected
from twophase.meter.latency import FORMULAS
from twophase.meter.records import LoadRun
from twophase.meter.summary import Summary
from twophase.report.bench_rows import (
    COLUMNS,
    LEVEL_HEADS,
    Row,
    about,
    cohort_rows,
    error_line,
    flight_line,
    goodput_line,
    law_line,
    level_cells,
    notes,
    other_start,
    outcome_line,
    pace_line,
    rows,
    throughput_line,
    title,
)
from twophase.report.bench_terminal import HEAD, as_text, heading, note_lines, show, table
from twophase.report.bench_vllm import vllm_block
from twophase.units import count

SHOWN_REASONS = 8


def render(
    run: LoadRun,
    summary: Summary,
    console: Console | None = None,
    projected: Sequence[Projected] = (),
    tool: str = "",
) -> None:
    """Outcomes, latencies, throughput, goodput, the meter's own error, and each formula once."""
    show(blocks(run, summary, projected, tool), console)


def plain(run: LoadRun, summary: Summary, projected: Sequence[Projected] = (), tool: str = "") -> str:
    """The same without colours, with the block that `vllm bench serve` prints at its end."""
    return f"{as_text(blocks(run, summary, projected, tool))}\n\n{vllm_block(run, summary)}"


def blocks(
    run: LoadRun, summary: Summary, projected: Sequence[Projected], tool: str
) -> Iterable[RenderableType]:
    yield Text.assemble((title(run), HEAD), f"\n{about(run)}")
    if run.partial:
        yield Text(f"\nPartial: {run.partial}. What was measured until then follows.", "bold red")
    if summary.error.limited:
        yield Text(
            f"\nThe client was the bottleneck: {summary.error.limited}. Latencies below are its, not the "
            "server's alone.",
            "bold red",
        )
    yield Text(f"\n{outcome_line(summary)}\n{flight_line(summary)}\n{throughput_line(summary)}")
    if pace := pace_line(summary.latencies):
        yield Text(pace)
    if summary.goodput:
        yield Text(f"goodput {goodput_line(summary)}")
    yield Text(error_line(summary.error))
    yield from _reasons(summary)
    if summary.levels:
        yield heading("Levels", "in the order they were run")
        yield _levels(summary.levels)
        if line := law_line(summary.law):
            yield Text(f"{line}; intervals of 95 %")
    yield heading("Latency", _start(summary))
    yield latency_table([*rows(summary.latencies), *other_start(summary), *cohort_rows(summary)])
    if projected:
        yield heading("Definitions", f"as {tool} would report the same events")
        yield latency_table([Row(each.name, True, each.seconds) for each in projected if each.seconds])
        yield Text("\n".join(f"{each.name} = {each.formula}" for each in projected), "dim")
    yield from note_lines(notes(run, summary))
    yield heading("Formulas", "")
    yield Text("\n".join(f"{name} = {formula}" for name, formula in FORMULAS), "dim")


def _start(summary: Summary) -> str:
    start = "the planned instant (due)" if summary.since == "due" else "the last byte sent"
    apart = f"; first round of {summary.cohort_requests} apart" if summary.cohort_requests else ""
    return f"ms, finished requests, from {start}{apart}"


def latency_table(found: Sequence[Row]) -> RenderableType:
    if not found:
        return Text("none: no request finished", "dim")
    heads = ("", *COLUMNS, "n")
    return table(heads, ([row.name, *row.cells(), count(row.of.count)] for row in found))


def _levels(levels: Sequence[Summary]) -> RenderableType:
    return table(LEVEL_HEADS, level_cells(levels))


def _reasons(summary: Summary) -> Iterable[RenderableType]:
    if summary.reasons:
        lines = [
            f"{count(number):>6} {kind}: {reason or 'no reason given'}"
            for kind, reason, number in summary.reasons[:SHOWN_REASONS]
        ]
        more = len(summary.reasons) - SHOWN_REASONS
        yield Text("\n".join([*lines, *([f"       … and {more} more reasons"] if more > 0 else [])]))
