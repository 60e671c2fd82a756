"""Runs side by side, and the differences of each from the first."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twophase.meter.comparison import Comparison
from twophase.meter.distribution import Distribution
from twophase.meter.records import LoadRun
from twophase.meter.summary import Summary
from twophase.report.bench_json import figures
from twophase.report.bench_rows import error_line, server, simulated, title
from twophase.report.bench_terminal import HEAD, as_text, heading, table
from twophase.units import count, milliseconds, percent, significant


@dataclass(frozen=True, slots=True)
class Compared:
    """A run under a short name; `against`: its differences from the first run, which has none."""

    name: str
    run: LoadRun
    summary: Summary
    against: Comparison | None


def plain(runs: Sequence[Compared]) -> str:
    return as_text(blocks(runs))


def blocks(runs: Sequence[Compared]) -> Iterable[RenderableType]:
    yield Text(f"{len(runs)} runs, compared with {runs[0].name}", HEAD)
    for each in runs:
        partial = f"; partial: {each.run.partial}" if each.run.partial else ""
        asked = "" if simulated(each.run) else f", {server(each.run)}, {each.run.began_at}"
        yield Text(f"{each.name}: {title(each.run)}{asked}{partial}")
    yield heading("Side by side", "milliseconds where not said otherwise")
    yield table(("", *(each.name for each in runs)), side_by_side(runs))
    for each in runs[1:]:
        if each.against is None or not each.against.differences:
            continue
        own = each.against
        how = (
            f"{own.pairs} pairs of the same request"
            if own.paired
            else "samples of their own, not the same requests"
        )
        yield heading(f"{each.name} less {runs[0].name}", f"ms; 95 % bootstrap intervals; {how}")
        if own.unequal:
            yield Text(UNEQUAL.format(*map(count, own.finished)), "yellow")
        yield table(DIFFERENCE_HEADS, difference_cells(own), left=2)
    yield Text("\n" + "\n".join(f"{each.name}: {error_line(each.summary.error)}" for each in runs), "dim")


UNEQUAL = (
    "No verdict on these differences: {} requests finished in the base and {} in this run, not the same. "
    "What one of them lacks may be its slowest: repeat both with one --seed and --requests."
)
DIFFERENCE_HEADS = ("", "", "base", "other", "difference", "from", "to", "of base", "")


def difference_cells(own: Comparison) -> list[list[str]]:
    made = []
    for each in own.differences:
        spread = each.difference_s
        ends = (spread.value, spread.low, spread.high or 0.0)
        change = spread.value / each.base_s if each.base_s else 0.0
        made.append(
            [
                *(each.metric, each.statistic, milliseconds(each.base_s), milliseconds(each.other_s)),
                *(signed(end) for end in ends),
                f"{change:+.1%}",
                own.verdict(each),
            ]
        )
    return made


def signed(seconds: float) -> str:
    return (
        f"{'+' if seconds > 0 else '-' if seconds < 0 else ''}{milliseconds(abs(seconds))}"
        if seconds
        else "0"
    )


def side_by_side(runs: Sequence[Compared]) -> list[list[str]]:
    def over(name: str, statistic: str) -> list[str]:
        found: list[Distribution | None] = [getattr(each.summary.latencies, name) for each in runs]
        return [milliseconds(getattr(own, statistic)) if own else "–" for own in found]

    rows = [
        ["requests finished", *(f"{each.summary.of('finished')}/{each.summary.requests}" for each in runs)],
        ["in flight, mean", *(significant(each.summary.in_flight.mean) for each in runs)],
        ["output tokens/s", *(significant(each.summary.throughput.output_tokens_per_s) for each in runs)],
        ["requests/s", *(significant(each.summary.throughput.requests_per_s) for each in runs)],
    ]
    for name, label in (("ttft", "TTFT"), ("tpot", "TPOT"), ("gap", "gap"), ("e2e", "E2E")):
        rows += [[f"{label} {statistic}", *over(name, statistic)] for statistic in ("mean", "p50", "p99")]
    if any(each.summary.goodput for each in runs):
        shares = [percent(each.summary.goodput.share) if each.summary.goodput else "–" for each in runs]
        rows.append(["goodput", *shares])
    return rows


def to_json(runs: Sequence[Compared]) -> str:
    document = {
        "base": runs[0].name,
        "runs": [one(each) for each in runs],
    }
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)


def one(own: Compared) -> dict[str, Any]:
    made: dict[str, Any] = {"name": own.name, "began_at": own.run.began_at, **figures(own.summary)}
    if own.against is not None:
        made["against_base"] = {
            "paired": own.against.paired,
            "pairs": own.against.pairs,
            "differences": [
                {**asdict(each), "verdict": own.against.verdict(each)} for each in own.against.differences
            ],
        }
    return made
