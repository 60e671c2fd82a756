"""A simulated run as one HTML page that needs nothing else: the meter's page, and what the engine did."""

from collections.abc import Iterable
from html import escape

from twophase.report import bench_charts as charts
from twophase.report.bench_html import headline
from twophase.report.bench_page import fact, figure, fill, lead, listing, section, table, warning, words
from twophase.report.bench_rows import (
    COLUMNS,
    cohort_rows,
    flight_line,
    goodput_line,
    outcome_line,
    rows,
    throughput_line,
)
from twophase.report.bench_svg import Marks, axis, chart
from twophase.report.simulation import Simulation, notes, overload_line
from twophase.report.simulation_activity import over_time
from twophase.report.simulation_summary import steady_requests
from twophase.report.simulation_text import POOL_HEADS, POOLS, activity_rows, pool_rows, whose
from twophase.units import count, duration, percent, significant

WORDS = (
    ("ttft", "first token - arrival: queueing is in it"),
    ("tpot", "(last token - first) / (tokens - 1), per request"),
    ("gap", "one token - the one before it, all requests' pooled"),
    ("mfu, mbu", "FLOPs and bytes of all passes / what the roofs would have done while they ran"),
    ("batch, KV cache", "means over the time in which passes ran"),
    ("prefix cache", "prompt tokens found at a request's first admission / its prompt tokens"),
)


def page(own: Simulation) -> str:
    summary = own.summary
    cells = [
        [row.name, *row.cells(), count(row.of.count)]
        for row in (*rows(summary.latencies), *cohort_rows(summary))
    ]
    good = goodput_line(summary)
    title = f"{own.model} on {own.where}"
    reasons = [[kind, count(number), reason] for kind, reason, number in summary.reasons]
    sections = [
        section(
            "Latency",
            table(("", *(f"{each}\nms" for each in COLUMNS), "n"), cells, left=1),
            f"{whose(summary).capitalize()}.",
        ),
        section("The engine", table(("", "", ""), activity_rows(own), left=3)),
        section(
            "The pools",
            table(POOL_HEADS, pool_rows(own), left=1) if len(own.pools) > 1 else "",
            f"{POOLS[0].upper()}{POOLS[1:]}.",
        ),
        section("Over the run", '<div class="charts">' + "".join(figures(own)) + "</div>"),
        section(
            "What did not finish",
            table(("outcome", "requests", "reason"), reasons, left=3) if reasons else "",
        ),
        section(
            "Notes",
            listing(
                [
                    *throughput_line(summary).splitlines(),
                    flight_line(summary),
                    *([good] if good else []),
                    *notes(own),
                ]
            ),
        ),
        section("The formulas", words(WORDS)),
    ]
    return fill(
        title=escape(f"{title}, simulated: {headline(summary)}"),
        about=f"twophase simulate · <b>{escape(title)}</b>",
        headline=escape(headline(summary)),
        lead=lead(f"{outcome_line(summary)}.", f"{own.how}; {own.provenance}"),
        warnings=warning(overload_line(own)),
        facts="\n".join(facts(own)),
        sections="\n".join(sections),
        when=escape(f"{duration(own.run.ended_s)} of simulated time"),
    )


def facts(own: Simulation) -> Iterable[str]:
    made, did = own.summary.throughput, own.activity
    yield fact(
        "Output tokens/s",
        significant(made.output_tokens_per_s),
        f"{significant(made.input_tokens_per_s)} input, {significant(made.requests_per_s)} requests/s",
    )
    yield fact("Batch", significant(did.work.batch_mean), f"{count(did.work.batch_peak)} at most")
    yield fact("KV cache", percent(did.work.kv_use_mean), f"{percent(did.work.kv_use_peak)} at most")
    yield fact(
        "Busy", percent(did.work.busy_share), f"MFU {percent(did.work.mfu)}, MBU {percent(did.work.mbu)}"
    )
    if own.summary.goodput:
        slo = ", ".join(f"{each.metric} ≤ {duration(each.seconds)}" for each in own.summary.goodput.slo)
        yield fact("Goodput", percent(own.summary.goodput.share), slo)
    if did.usd_per_million_output_tokens is not None:
        yield fact("Cost", f"${significant(did.usd_per_million_output_tokens)}", "a million output tokens")


def figures(own: Simulation) -> Iterable[str]:
    run, kept = own.run, steady_requests(own.run)  # as in the table
    ttft, tpot = run.ttft_s[kept].tolist(), run.tpot_s[kept[run.output_tokens > 1]].tolist()
    if ttft:
        yield figure(
            "TTFT",
            "Requests that had their first token by then.",
            charts.spread("TTFT", ttft, "p"),
        )
    if tpot:
        yield figure(
            "TPOT",
            "Requests whose tokens came at least so fast.",
            charts.spread("TPOT", tpot, "q"),
        )
    if not own.activity.passes:
        return
    course = over_time(run)
    at = course.at_s.tolist()
    running, waiting = course.running.tolist(), course.waiting.tolist()
    drawn = chart(
        "Batch over the run",
        axis("after (s)", at, zero=True),
        axis("requests", [*running, *waiting], zero=True),
        [
            Marks("dash", list(zip(at, waiting, strict=True)), "f", "waiting", at_top=True),
            Marks("line", list(zip(at, running, strict=True)), "q", "running", at_top=True),
        ],
    )
    yield figure("Batch over the run", "Requests that run, and those that wait.", drawn)
    use = [100 * each for each in course.kv_use.tolist()]
    drawn = chart(
        "KV cache over the run",
        axis("after (s)", at, zero=True),
        axis("KV cache (%)", [*use, 100.0], zero=True),
        [Marks("line", list(zip(at, use, strict=True)), "p")],
    )
    yield figure("KV cache over the run", "Blocks that requests hold, of all replicas.", drawn)
