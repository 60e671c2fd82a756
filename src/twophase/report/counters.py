"""Readings of counters as text: what was served, how long it took, whose the GPU's time was."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twophase.counters.histogram import Quantile
from twophase.counters.phase_share import WIDE
from twophase.counters.picture import Picture, Times
from twophase.counters.reading import Reading
from twophase.counters.share import SAID, Share
from twophase.report.aligned import aligned
from twophase.units import count, duration, percent, plural, quantity, significant

if TYPE_CHECKING:
    from rich.text import Text

Line = tuple[str, str]  # (rich's style, text)
Row = tuple[str, str, str]

TIMES = {
    "ttft": "TTFT",
    "itl": "ITL",
    "tpot": "TPOT",
    "e2e": "E2E",
    "queue": "queue",
    "prefill": "in prefill",
    "decode": "in decode",
}
SHOWN = (0.5, 0.9, 0.99)
BAR = 32


def plain(readings: Sequence[Reading]) -> str:
    return "\n\n".join("\n".join(text for _, text in lines(each)) for each in readings)


def rich(readings: Sequence[Reading]) -> "Text":
    from rich.text import Text

    made = [Text("\n").join(Text(text, style) for style, text in lines(each)) for each in readings]
    return Text("\n\n").join(made)


def lines(own: Reading) -> Iterator[Line]:
    picture = own.picture
    yield "bold", head(picture)
    for title, rows in (("Tokens", list(tokens(picture))), ("Load", list(load(picture)))):
        if rows:
            yield "", ""
            yield "bold", title
            yield from (("", f"  {line}") for line in aligned(("", "", ""), rows, ("",), "  ")[1:])
    if any(name in picture.times for name in TIMES):
        yield "", ""
        yield "bold", "Times  behind each quantile stands the bucket in which it lies"
        yield from (("", f"  {line}") for line in times(picture))
    yield "", ""
    yield "bold", "GPU time"
    yield from shares(own)
    yield "", ""
    yield "bold green", f"Verdict  {own.verdict}"
    if picture.notes:
        yield "", ""
        yield from (("dim", f"note: {each}") for each in picture.notes)


def head(own: Picture) -> str:
    known = own.covered_s if own.covered_s is not None else own.window_s
    window = f"{known:,.4g} s" if known is not None else "a window of unknown length"
    requests = f"; {plural(own.requests, 'request')} finished" if own.requests is not None else ""
    return f"{own.title}  {own.model + ', ' if own.model else ''}{window}{requests}"


def tokens(own: Picture) -> Iterator[Row]:
    if own.prompt_tokens is not None:
        yield "prompt", count(own.prompt_tokens), _each(own.prompt_tokens_mean)
    if own.computed_prompt_tokens is not None:
        cached = f"{percent(own.cached_share)} cached" if own.cached_share is not None else ""
        if own.external_prompt_tokens:
            cached += f", {count(own.external_prompt_tokens)} of it from another instance"
        yield "  computed", count(own.computed_prompt_tokens), cached
    if own.generation_tokens is not None:
        yield "generated", count(own.generation_tokens), _each(own.output_tokens_mean)
    billed, computed = own.prefill_decode_token_ratio_billed, own.prefill_decode_token_ratio_computed
    if billed is not None:
        after = f"{significant(computed)} : 1 computed, after the cache" if computed is not None else ""
        yield "prefill : decode", f"{significant(billed)} : 1", after
    elif computed is not None:
        yield "prefill : decode", f"{significant(computed)} : 1", "computed, after the cache"


def _each(mean: float | None) -> str:
    return f"{count(mean)} a request" if mean is not None else ""


def load(own: Picture) -> Iterator[Row]:
    if own.mean_running_decode is not None:
        yield "in decode", significant(own.mean_running_decode), "sequences, over the window"
    if own.mean_decode_batch is not None:
        yield "decode batch", significant(own.mean_decode_batch), "sequences in a step"
    if own.running is not None or own.waiting is not None:
        seen = [f"{significant(own.running)} running"] if own.running is not None else []
        seen += [f"{significant(own.waiting)} waiting"] if own.waiting is not None else []
        yield "when looked at", "", ", ".join(seen)
    if own.mean_queue is not None:
        yield "queue", significant(own.mean_queue), "requests, over the window"
    if own.kv_usage is not None:
        pool = f"of {count(own.kv_tokens)} tokens" if own.kv_tokens else ""
        yield "KV cache in use", percent(own.kv_usage), pool
    if own.preemptions:
        wasted = f"{count(own.wasted_tokens)} tokens computed in vain" if own.wasted_tokens else ""
        yield "preemptions", count(own.preemptions), wasted
    for name, lost in (("aborted", own.aborted), ("failed", own.failed)):
        if lost:
            yield name, count(lost), "requests"
    if own.tokens_per_step is not None:
        accepted = f"{percent(own.acceptance)} of drafts accepted" if own.acceptance is not None else ""
        yield "speculation", significant(own.tokens_per_step), f"tokens a step; {accepted}".rstrip("; ")
    if own.intensity_flop_per_byte is not None:
        work = quantity(own.flops, "FLOP") if own.flops else ""
        yield "intensity", significant(own.intensity_flop_per_byte), f"FLOP/byte, {work} of one device"


def times(own: Picture) -> list[str]:
    known = {name: own.times[name] for name in TIMES if name in own.times}
    rows = [(TIMES[name], duration(each.mean), *_quantiles(each)) for name, each in known.items()]
    if "ttft" not in known and own.ttft_mean_s is not None:
        rows.append(("TTFT", duration(own.ttft_mean_s), "", "", ""))
    if "itl" not in known and own.tpot_mean_s is not None:
        rows.append(("ITL", duration(own.tpot_mean_s), "", "", ""))
    made = aligned(("", "mean", "p50", "p90", "p99"), rows, ("", "p50", "p90", "p99"), "  ")
    if own.queue_share_of_ttft is not None:
        prefill = own.prefill_share_of_ttft
        more = f", {percent(prefill)} in prefill" if prefill is not None else ""
        made.append(f"of TTFT {percent(own.queue_share_of_ttft)} is spent in the queue{more}")
    return made


def _quantiles(own: Times) -> Iterator[str]:
    known = dict(own.quantiles)
    for share in SHOWN:
        yield _quantile(known[share]) if share in known else ""


def _quantile(own: Quantile) -> str:
    if own.high is None:
        return f"> {duration(own.low)}"
    if own.low <= 0:
        return f"up to {duration(own.high)}"  # where in its first bucket nobody knows
    return f"{duration(own.value)} ({duration(own.low)} to {duration(own.high)}]"


def shares(own: Reading) -> Iterator[Line]:
    picture = own.picture
    if picture.gpu_busy is not None:
        yield "", f"  busy {percent(picture.gpu_busy)} of the window"
    for phase, seconds, floor in (
        ("prefill", picture.prefill_gpu_s, picture.prefill_floor_s),
        ("decode", picture.decode_gpu_s, picture.decode_floor_s),
    ):
        if seconds is not None:
            reached = f", {percent(floor / seconds)} of its floor's pace" if floor and seconds else ""
            yield "", f"  {phase} {duration(seconds)}, the engine's own count{reached}"
    exact = [each for each in own.shares if each.method == "engine"]
    for each in exact or own.shares:
        yield "", f"  {bar(each)}: {SAID[each.method]}"
        yield from (("dim", f"    {why}") for why in each.why if why)
    if not own.shares or own.dominant == "unknown":
        yield from (("dim", f"  {each}") for each in own.missing)


def bar(own: Share) -> str:
    if own.prefill.high - own.prefill.low > WIDE:
        return f"prefill's share can't be told ({percent(own.prefill.low)} to {percent(own.prefill.high)})"
    filled = round(own.prefill.mid * BAR)
    exact = own.prefill.high - own.prefill.low < 1e-9
    between = "" if exact else f" ({percent(own.prefill.low)} to {percent(own.prefill.high)})"
    return f"prefill {'█' * filled}{'░' * (BAR - filled)} decode  {percent(own.prefill.mid)} prefill{between}"
