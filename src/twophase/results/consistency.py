"""Where a row contradicts itself: arithmetic between its own numbers, before any model is known.

Tolerances are wide where requests differ: the mean of products is not the product of means.
"""

from collections.abc import Callable, Iterator

from twophase.results.point import Point

EXACT = 1.05  # both sides are totals over the same time
VARIED = 1.3  # (output - 1) · TPOT over requests of different lengths
CLIENTS = 1.5  # 1 / TPOT as a client's rate, where slow requests are the short ones


def inconsistencies(point: Point) -> tuple[str, ...]:
    """One sentence for each contradiction, none where all that can be compared agrees."""
    checks: tuple[Callable[[Point], Iterator[str]], ...] = (_latency, _rates, _shares, _clients)
    return tuple(sentence for check in checks for sentence in check(point))


def _agree(one: float, other: float, within: float) -> bool:
    return max(one, other) <= within * min(one, other)


def _latency(point: Point) -> Iterator[str]:
    ttft, tpot, e2e, outputs = point.ttft_s, point.tpot_s, point.e2e_s, point.output_tokens
    if ttft and e2e and ttft > EXACT * e2e:
        yield f"TTFT {_s(ttft)} is longer than the whole request, {_s(e2e)}"
    elif ttft and tpot and e2e and outputs and outputs > 1 and point.statistic not in ("median", "mixed"):
        after_first = (e2e - ttft) / (outputs - 1)
        if _agree(tpot, e2e / outputs, 1.01) and not _agree(tpot, after_first, EXACT):
            yield (
                f"TPOT {_s(tpot)} is E2E / output tokens, with the TTFT inside; "
                f"(E2E - TTFT) / (output tokens - 1) is {_s(max(after_first, 0.0))}"
            )
        elif not _agree(e2e, ttft + (outputs - 1) * tpot, VARIED):
            whole = ttft + (outputs - 1) * tpot
            yield f"TTFT + (output tokens - 1) · TPOT is {_s(whole)}, but E2E is {_s(e2e)}"


def _rates(point: Point) -> Iterator[str]:
    requests, inputs, outputs = point.requests_per_s, point.input_tokens, point.output_tokens
    if not requests or not outputs:
        return
    pairs = [("output", point.output_tokens_per_s, "output tokens", outputs)]
    if inputs:
        pairs.append(("input", point.input_tokens_per_s, "input tokens", inputs))
        pairs.append(("total", point.total_tokens_per_s, "(input + output tokens)", inputs + outputs))
    for name, rate, factor, tokens in pairs:
        if rate and not _agree(rate, requests * tokens, EXACT):
            yield (
                f"{name} rate is {rate:,.0f} tokens/s, but requests/s · {factor} is {requests * tokens:,.0f}"
            )


def _shares(point: Point) -> Iterator[str]:
    output, total = point.output_tokens_per_s, point.total_tokens_per_s
    if output and total and output > EXACT * total:
        yield f"output rate {output:,.0f} tokens/s is more than input and output together, {total:,.0f}"
    pairs = (
        ("output", output, point.output_tokens_per_s_per_gpu),
        ("total", total, point.total_tokens_per_s_per_gpu),
    )
    for name, whole, each in pairs:
        if whole and each and point.gpus and not _agree(whole, each * point.gpus, EXACT):
            yield (
                f"{name} rate is {whole:,.0f} tokens/s, but per GPU · {point.gpus} GPUs is "
                f"{each * point.gpus:,.0f}"
            )
    if point.cached_tokens and point.input_tokens and point.cached_tokens > point.input_tokens:
        yield f"{point.cached_tokens:,.0f} tokens from a cache, of {point.input_tokens:,.0f} input tokens"


def _clients(point: Point) -> Iterator[str]:
    """A client gets at most a token each TPOT, so the system at most concurrency / TPOT."""
    if not point.tpot_s:
        return
    per_user = point.output_tokens_per_s_per_user
    if per_user and per_user > CLIENTS / point.tpot_s:
        yield f"{per_user:,.1f} output tokens/s per user is more than 1 / TPOT, {1 / point.tpot_s:,.1f}"
    if not point.concurrency:
        return
    most = point.concurrency / point.tpot_s
    gpus = point.gpus
    output = point.output_tokens_per_s or (point.output_tokens_per_s_per_gpu or 0) * (gpus or 0)
    if output > CLIENTS * most:
        hint = _both(point, output)
        yield f"output rate {output:,.0f} tokens/s is more than concurrency / TPOT, {most:,.0f}{hint}"
    total = point.total_tokens_per_s or (point.total_tokens_per_s_per_gpu or 0) * (gpus or 0)
    if total and point.input_tokens and point.output_tokens:
        with_input = most * (1 + point.input_tokens / point.output_tokens)
        if total > CLIENTS * with_input:
            yield (
                f"total rate {total:,.0f} tokens/s is more than concurrency / TPOT with the input tokens, "
                f"{with_input:,.0f}"
            )


def _both(point: Point, output: float) -> str:
    """A hint where the rate fits once input tokens are counted in it."""
    if not point.input_tokens or not point.output_tokens or not point.concurrency or not point.tpot_s:
        return ""
    both = point.concurrency / point.tpot_s * (1 + point.input_tokens / point.output_tokens)
    return "; it fits input and output together" if output <= EXACT * both else ""


def _s(seconds: float) -> str:
    return f"{seconds * 1e3:,.4g} ms" if seconds < 1 else f"{seconds:,.4g} s"
