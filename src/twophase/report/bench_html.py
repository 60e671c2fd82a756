"""A load run as one HTML page that needs nothing else: light, dark, phone, print, offline."""

from collections.abc import Iterable
from html import escape

from twophase.meter.distribution import Distribution
from twophase.meter.latency import FORMULAS, ttft_s
from twophase.meter.records import LoadRun
from twophase.meter.summary import Summary
from twophase.report import bench_charts as charts
from twophase.report.bench_page import (
    block,
    fact,
    figure,
    fill,
    lead,
    listing,
    section,
    table,
    warning,
    words,
)
from twophase.report.bench_rows import (
    COLUMNS,
    LEVEL_HEADS,
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
from twophase.report.bench_svg import Colour
from twophase.report.bench_vllm import vllm_block
from twophase.units import count, duration, percent, significant

PREFILL: Colour = "p"
DECODE: Colour = "q"


def page(run: LoadRun, summary: Summary) -> str:
    """The whole page."""
    start = "its planned instant" if summary.since == "due" else "the last byte sent"
    found = [*rows(summary.latencies), *other_start(summary), *cohort_rows(summary)]
    cells = [[row.name, *row.cells(), count(row.of.count)] for row in found]
    reasons = [[kind, count(number), reason] for kind, reason, number in summary.reasons]
    good = goodput_line(summary)
    sections = [
        section(
            "Latency", table(("", *(f"{each}\nms" for each in COLUMNS), "n"), cells, left=1), f"From {start}."
        ),
        section(
            "Levels",
            table(LEVEL_HEADS, level_cells(summary.levels), left=1) if summary.levels else "",
            f"{law}; intervals of 95 %." if (law := law_line(summary.law)) else "",
        ),
        section("What was measured", '<div class="charts">' + "".join(figures(run, summary)) + "</div>"),
        section(
            "What did not finish",
            table(("outcome", "requests", "reason"), reasons, left=3) if reasons else "",
        ),
        section(
            "Notes",
            listing(
                [
                    *throughput_line(summary).split("\n"),
                    flight_line(summary),
                    *([pace] if (pace := pace_line(summary.latencies)) else []),
                    *([good] if good else []),
                    *notes(run, summary),
                ]
            ),
        ),
        section(
            "To paste",
            block(vllm_block(run, summary)),
            "In the layout, and by the definitions, of vllm bench serve.",
        ),
        section("The formulas", words(FORMULAS)),
    ]
    return fill(
        title=escape(f"{title(run)}: {headline(summary)}"),
        about=f"twophase bench · <b>{escape(title(run))}</b>",
        headline=escape(headline(summary)),
        lead=lead(f"{outcome_line(summary)}. {error_line(summary.error)}.", about(run)),
        warnings=warning(f"Partial: {run.partial}." if run.partial else "")
        + warning(
            f"The client was the bottleneck: {summary.error.limited}." if summary.error.limited else ""
        ),
        facts="\n".join(facts(summary)),
        sections="\n".join(sections),
        when=escape(f"a run of {run.began_at}"),
    )


def headline(summary: Summary) -> str:
    own = summary.latencies
    if own.ttft is None:
        return "No request finished with a first token"
    line = f"First token after {duration(own.ttft.p50)}, {duration(own.ttft.p99)} at p99"
    if own.tpot:
        line += f"; then one every {duration(own.tpot.p50)}"
    return f"{line}; {significant(summary.throughput.output_tokens_per_s)} tokens/s"


def facts(summary: Summary) -> Iterable[str]:
    own, made = summary.throughput, summary.tokens
    yield fact(
        "Output tokens/s",
        significant(own.output_tokens_per_s),
        f"{significant(own.input_tokens_per_s)} input, {significant(own.requests_per_s)} requests/s",
    )
    yield fact("In flight", significant(summary.in_flight.mean), f"{summary.in_flight.peak} at most")
    if summary.goodput:
        slo = ", ".join(f"{each.metric} ≤ {duration(each.seconds)}" for each in summary.goodput.slo)
        yield fact("Goodput", percent(summary.goodput.share), slo)
    if summary.error.ttft:
        yield fact(
            "Meter error", f"≤ {duration(summary.error.ttft.p99)}", "on TTFT p99: how late its own loop read"
        )
    cached = "unknown" if made.cached_share is None else percent(made.cached_share)
    yield fact("Prompt tokens cached", cached, "by the server’s own count")


def figures(run: LoadRun, summary: Summary) -> Iterable[str]:
    """Only of what was measured: a run of nothing has none."""
    for own, name, colour, of in (
        (summary.levels, "TTFT", PREFILL, first_token),
        (summary.levels, "TPOT", DECODE, later_tokens),
    ):
        if sum(of(each) is not None for each in own) > 1:
            drawn = charts.levels(own, f"{name} by load", colour, of)
            yield figure(f"{name} by load", "p50 and p99 of each level.", drawn)
    apart = frozenset(run.first_cohort if summary.cohort_requests else ())  # as in the table
    steady = [each for each in run.replies if each.number not in apart]
    firsts = charts.finished_values(steady, lambda each: ttft_s(each, summary.since))
    laters = charts.finished_values(steady, lambda each: each.tpot_s)
    if firsts:
        yield figure(
            "TTFT", "Requests that had their first token by then.", charts.spread("TTFT", firsts, "p")
        )
    if laters:
        yield figure(
            "TPOT", "Requests whose tokens came at least so fast.", charts.spread("TPOT", laters, "q")
        )
    if firsts:
        yield figure("TTFT over the run", "Each request by when it was sent.", charts.over_time(run, summary))
        yield figure("In flight over the run", "Requests sent and not ended.", charts.load_over_time(run))


def first_token(level: Summary) -> Distribution | None:
    return level.latencies.ttft


def later_tokens(level: Summary) -> Distribution | None:
    return level.latencies.tpot
