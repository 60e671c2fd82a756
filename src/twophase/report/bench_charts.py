"""The charts of a load run: distributions, times over the run, and levels against each other."""

from collections.abc import Callable, Sequence

from twophase.meter.distribution import Distribution
from twophase.meter.latency import in_flight, ttft_s
from twophase.meter.records import LoadRun, Reply
from twophase.meter.summary import Summary
from twophase.report.bench_svg import Colour, Marks, Point, axis, chart

MOST_DOTS = 1500
SHARES = tuple(i / 200 for i in range(201))


def spread(title: str, values: Sequence[float], colour: Colour) -> str:
    """The share of requests that took no longer, in ms; logarithmic, for tails are long."""
    ordered = sorted(value * 1e3 for value in values)
    points: list[Point] = [(ordered[round(share * (len(ordered) - 1))], 100 * share) for share in SHARES]
    marks = Marks("line", points, colour)
    p99 = ordered[round(0.99 * (len(ordered) - 1))]
    return chart(
        title,
        axis(f"{title} (ms)", ordered, log=ordered[0] > 0),
        axis("requests (%)", [0.0, 100.0], zero=True),
        [marks, Marks("vertical", [(p99, 0.0)], "f", "p99")],
    )


def over_time(run: LoadRun, summary: Summary) -> str:
    """TTFT of each request by when it started."""
    began = min(each.sent_s for each in run.replies if each.sent_s > 0)
    points = [
        (each.sent_s - began, first * 1e3)
        for each in run.replies
        if each.outcome == "finished" and (first := ttft_s(each, summary.since)) is not None
    ]
    shown = thinned(points)
    return chart(
        "TTFT over the run",
        axis("sent after (s)", [x for x, _ in points], zero=True),
        axis("TTFT (ms)", [y for _, y in points], zero=True),
        [Marks("dots", shown, "p", thin=len(shown) > 200)],
    )


def load_over_time(run: LoadRun) -> str:
    """Requests on their way, sampled evenly over the run."""
    spans = in_flight(run.replies)
    began, ended = min(start for start, _ in spans), max(end for _, end in spans)
    at = [began + (ended - began) * share for share in SHARES]
    points: list[Point] = [(t - began, sum(start <= t < end for start, end in spans)) for t in at]
    return chart(
        "Requests in flight over the run",
        axis("after (s)", [x for x, _ in points], zero=True),
        axis("in flight", [y for _, y in points], zero=True),
        [Marks("line", points, "f")],
    )


def levels(
    found: Sequence[Summary], title: str, colour: Colour, of: Callable[[Summary], Distribution | None]
) -> str:
    """p50 and p99 in ms against the output tokens/s of each level."""
    known = [(each, own) for each in found if (own := of(each)) is not None]
    known.sort(key=lambda pair: pair[0].throughput.output_tokens_per_s)
    middle: list[Point] = [(e.throughput.output_tokens_per_s, own.p50 * 1e3) for e, own in known]
    tail: list[Point] = [(e.throughput.output_tokens_per_s, own.p99 * 1e3) for e, own in known]
    return chart(
        title,
        axis("output tokens/s", [x for x, _ in middle], zero=True),
        axis(f"{title.split(maxsplit=1)[0]} (ms)", [y for _, y in (*middle, *tail)], log=True),
        [
            Marks("dash", tail, "f", "p99"),
            Marks("dots", tail, "f"),
            Marks("line", middle, colour, "p50", below=True),
            Marks("dots", middle, colour),
        ],
    )


def thinned(points: Sequence[Point]) -> list[Point]:
    """Every so many-th, and the slowest hundredth whole: a chart must not hide the tail."""
    if len(points) <= MOST_DOTS:
        return list(points)
    tail = sorted(y for _, y in points)[-max(len(points) // 100, 1)]
    every = -(-len(points) // MOST_DOTS)
    return [point for i, point in enumerate(points) if i % every == 0 or point[1] >= tail]


def finished_values(replies: Sequence[Reply], of: Callable[[Reply], float | None]) -> list[float]:
    return [value for each in replies if each.outcome == "finished" and (value := of(each)) is not None]
