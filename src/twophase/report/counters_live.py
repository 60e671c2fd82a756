"""A window in a few lines, for a view that refreshes; and how the figures went over the windows before."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twophase.counters.picture import Picture, Times
from twophase.counters.reading import Reading
from twophase.report.counters import Line, bar, head
from twophase.units import count, duration, percent, significant

if TYPE_CHECKING:
    from rich.text import Text

STEPS = "▁▂▃▄▅▆▇█"
KEPT = 60  # windows of the past


def view(past: Sequence[Sequence[Reading]], state: str) -> "Text":
    """past: the windows so far, the latest last; state: what is being waited for."""
    from rich.text import Text

    made = [
        Text(text, style)
        for at, own in enumerate(past[-1] if past else [])
        for style, text in lines(own, [each[at] for each in past[-KEPT:] if at < len(each)])
    ]
    return Text("\n").join([*made, Text(state, "dim")])


def lines(own: Reading, past: Sequence[Reading]) -> Iterator[Line]:
    picture = own.picture
    yield "bold", head(picture)
    if own.shares:
        yield "", f"GPU     {bar(own.shares[0])} ({own.shares[0].method})"
    for title, parts in (("tokens", _tokens(picture)), ("load", _load(picture)), ("times", _times(picture))):
        if found := list(parts):
            yield "", f"{title:<8}{', '.join(found)}"
    for title, values in (
        ("prefill's share of GPU time", [_share(each) for each in past]),
        ("generated tokens", [each.picture.generation_tokens for each in past]),
    ):
        if len(past) > 1 and any(value is not None for value in values):
            yield "cyan", f"{'':<8}{sparkline(values)}  {title}, window by window"
    yield "bold green", own.verdict
    yield from (("dim", f"note: {each}") for each in picture.notes[:2])
    yield "", ""


def sparkline(values: Sequence[float | None]) -> str:
    """From zero to the largest; a space where a window tells nothing."""
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    return "".join(
        " " if value is None else STEPS[min(int(value / most * len(STEPS)), len(STEPS) - 1)]
        for value in values
    )


def _share(own: Reading) -> float | None:
    return own.shares[0].prefill.mid if own.shares and own.dominant != "unknown" else None


def _tokens(own: Picture) -> Iterator[str]:
    seconds = own.covered_s
    for name, tokens in (("prompt", own.prompt_tokens), ("generated", own.generation_tokens)):
        if tokens is not None and seconds:
            yield f"{name} {count(tokens / seconds)}/s"
    if own.cached_share is not None:
        yield f"{percent(own.cached_share)} cached"
    if own.prefill_decode_token_ratio_billed is not None:
        yield f"{significant(own.prefill_decode_token_ratio_billed)} : 1 billed"
    if own.prefill_decode_token_ratio_computed is not None:
        yield f"{significant(own.prefill_decode_token_ratio_computed)} : 1 computed"


def _load(own: Picture) -> Iterator[str]:
    if own.mean_running_decode is not None:
        yield f"{significant(own.mean_running_decode)} in decode"
    if own.running is not None:
        yield f"{significant(own.running)} running"
    if own.waiting is not None:
        yield f"{significant(own.waiting)} waiting"
    if own.kv_usage is not None:
        yield f"KV cache {percent(own.kv_usage)}"
    if own.gpu_busy is not None:
        yield f"busy {percent(own.gpu_busy)}"
    if own.preemptions:
        yield f"{count(own.preemptions)} preemptions"


def _times(own: Picture) -> Iterator[str]:
    for name, title in (("ttft", "TTFT"), ("itl", "ITL"), ("e2e", "E2E")):
        if name in own.times:
            yield f"{title} {duration(own.times[name].mean)}{_late(own.times[name])}"


def _late(own: Times) -> str:
    late = dict(own.quantiles).get(0.99)
    if late is None:
        return ""
    return (
        f" (p99 up to {duration(late.high)})" if late.high is not None else f" (p99 > {duration(late.low)})"
    )
