"""The block that `vllm bench serve` prints, from our run: what people paste into issues."""

from twophase.meter.definitions import Projected, project
from twophase.meter.records import LoadRun
from twophase.meter.summary import Summary

WIDTH = 50


def vllm_block(run: LoadRun, summary: Summary) -> str:
    """Latencies by vLLM's definitions, all finished requests; token counts and rates are ours."""
    found = {each.name: each for each in project(run.replies, "vllm", run.target.endpoint)}
    own = summary.whole_throughput
    finished = summary.of("finished")
    lines = [
        f"{' Serving Benchmark Result ':=^{WIDTH}}",
        line("Successful requests:", finished),
        line("Failed requests:", summary.requests - finished),
        line("Maximum request concurrency:", summary.in_flight.peak),
        line("Benchmark duration (s):", own.window_s),
        line("Total input tokens:", summary.tokens.prompt),
        line("Total generated tokens:", round(summary.tokens.output)),
        line("Request throughput (req/s):", own.requests_per_s),
    ]
    if summary.goodput:
        lines.append(
            line("Request goodput (req/s):", summary.goodput.good / own.window_s if own.window_s else 0.0)
        )
    lines += [
        line("Output token throughput (tok/s):", own.output_tokens_per_s),
        line("Total token throughput (tok/s):", own.total_tokens_per_s),
    ]
    for name, meaning in (
        ("TTFT", "Time to First Token"),
        ("TPOT", "Time per Output Token (excl. 1st token)"),
        ("ITL", "Inter-token Latency"),
        ("E2EL", "End-to-end Latency"),
    ):
        lines += section(found[name], meaning)
    return "\n".join([*lines, "=" * WIDTH])


def section(own: Projected, meaning: str) -> list[str]:
    if own.seconds is None:
        return []
    return [
        f"{meaning:-^{WIDTH}}",
        line(f"Mean {own.name} (ms):", own.seconds.mean * 1e3),
        line(f"Median {own.name} (ms):", own.seconds.p50 * 1e3),
        line(f"P99 {own.name} (ms):", own.seconds.p99 * 1e3),
    ]


def line(name: str, value: float) -> str:
    return f"{name:<40} {value:<10}" if isinstance(value, int) else f"{name:<40} {value:<10.2f}"
