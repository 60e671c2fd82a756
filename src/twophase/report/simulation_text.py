"""A simulated run in the terminal, and as plain aligned text where it is not one."""

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.text import Text

from twophase.meter.summary import Summary
from twophase.report.bench import latency_table
from twophase.report.bench_rows import (
    cohort_rows,
    flight_line,
    goodput_line,
    outcome_line,
    rows,
    throughput_line,
)
from twophase.report.bench_terminal import HEAD, as_text, heading, note_lines, show, table
from twophase.report.simulation import Simulation, notes, overload_line
from twophase.units import count, duration, percent, plural, significant

FORMULAS = (
    "TTFT from arrival to first token, queueing in it; TPOT (last - first token) / (tokens - 1), per request",
    "gap between a token and the one before it, all requests' together; means over time for batch and KV",
    "MFU, MBU: FLOPs and bytes of all passes / what the roofs would have done while they ran",
)
POOL_HEADS = (
    *("replicas\n", "busy\n", "queue\nmean", "queue\nmost", "batch\nmean", "batch\nmost"),
    *("KV\nmean", "KV\nmost", "MFU\n", "MBU\n"),
)
POOLS = "each for itself: queue, batch and KV of one of its replicas"


def render(own: Simulation, console: Console | None = None) -> None:
    show(blocks(own), console)


def plain(own: Simulation) -> str:
    return as_text(blocks(own))


def blocks(own: Simulation) -> Iterable[RenderableType]:
    summary = own.summary
    yield Text.assemble((f"{own.model} on {own.where}, simulated", HEAD), f"\n{own.how}; {own.provenance}")
    if own.run.growth is not None:
        yield Text(f"\n{overload_line(own)}", "bold red")
    if summary.of("truncated"):
        yield Text(
            f"\nStopped after {duration(own.run.ended_s)}: what was served until then follows.", "bold red"
        )
    yield Text(f"\n{outcome_line(summary)}\n{flight_line(summary)}\n{throughput_line(summary)}")
    if summary.goodput:
        yield Text(f"goodput {goodput_line(summary)}")
    for kind, reason, number in summary.reasons:
        yield Text(f"{count(number):>6} {kind}: {reason}")
    yield heading("Latency", f"ms, {whose(summary)}")
    yield latency_table([*rows(summary.latencies), *cohort_rows(summary)])
    yield heading("The engine", f"{plural(own.activity.passes, 'pass')} in {duration(own.run.ended_s)}")
    yield table(("", "", ""), activity_rows(own), left=3)
    if len(own.pools) > 1:
        yield heading("The pools", POOLS)
        yield table(POOL_HEADS, pool_rows(own), left=1)
    yield from note_lines([each for each in notes(own) if each != overload_line(own)])
    yield heading("Formulas", "")
    yield Text("\n".join(FORMULAS), "dim")


def whose(summary: Summary) -> str:
    apart = f"; first round of {count(summary.cohort_requests)} apart" if summary.cohort_requests else ""
    return f"finished requests, from their arrival{apart}"


def activity_rows(own: Simulation) -> list[tuple[str, str, str]]:
    made = own.activity
    shares = ", ".join(f"{percent(share)} {name}" for name, share in made.phase_shares.items() if share)
    found = [
        ("busy", percent(made.work.busy_share), shares),
        ("batch", significant(made.work.batch_mean), f"{count(made.work.batch_peak)} at most"),
        ("waiting", significant(made.work.waiting_mean), f"{count(made.work.waiting_peak)} at most"),
        (
            "KV cache",
            percent(made.work.kv_use_mean),
            f"{percent(made.work.kv_use_peak)} at most, of {kv_size(own)}",
        ),
        ("MFU", percent(made.work.mfu), "of the roof of arithmetic"),
        ("MBU", percent(made.work.mbu), "of the roof of memory"),
        ("preemptions", count(made.preemptions), "each loses its KV cache, and computes it again"),
    ]
    if made.prefix_queried_tokens:
        share = made.prefix_hit_tokens / made.prefix_queried_tokens
        found.append(("prefix cache", percent(share), "of prompt tokens found, at first admission"))
    if made.usd_per_million_output_tokens is not None and made.usd_per_million_tokens is not None:
        output, every = made.usd_per_million_output_tokens, made.usd_per_million_tokens
        said = f"for a million output tokens; ${significant(every)} of all tokens"
        found.append(("cost", f"${significant(output)}", said))
    return found


def pool_rows(own: Simulation) -> list[list[str]]:
    return [
        [
            f"{number} × {name}",
            percent(did.busy_share),
            *(significant(did.waiting_mean), count(did.waiting_peak)),
            *(significant(did.batch_mean), count(did.batch_peak)),
            *(percent(did.kv_use_mean), percent(did.kv_use_peak)),
            *(percent(did.mfu), percent(did.mbu)),
        ]
        for (name, number), did in zip(own.pools, own.activity.pools, strict=True)
    ]


def kv_size(own: Simulation) -> str:
    pools = own.run.pools
    sizes = [each.limits.blocks * each.limits.block_size * each.own.plan.pp for each in pools]
    return f"{' or '.join(map(count, dict.fromkeys(sizes)))} tokens a replica"
