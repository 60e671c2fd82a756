"""Measure both phases of a server within a budget: TTFT against prompt length, ITL against batch and context.

What sends requests is a function that the caller passes in: asks and a concurrency go in, replies come back,
none where the run has ended early.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from time import monotonic

from twophase.meter.curve_points import (
    Timed,
    TtftPoint,
    cached_share,
    itl_point,
    merged,
    ttft_points,
    typical,
)
from twophase.meter.itl_law import FEWEST as FEWEST_ITL
from twophase.meter.itl_law import ItlLaw, ItlPoint, fit_itl
from twophase.meter.records import Reply
from twophase.meter.ttft_curve import FEWEST as FEWEST_TTFT
from twophase.meter.ttft_curve import TtftFit, fit_ttft

SHORTEST, LONGEST = 16, 65536  # tokens of a prompt, where the server's window allows the longest
PROMPT, BATCH = "prompt ", "batch "  # points begin so
PREFILL_SHARE = 0.55  # of the budget
PREFILL_OUTPUT = 2  # tokens: one more than the first, so that a server does not hold the first back
REPEATS = 5  # of each length, where the budget allows
BATCHES = (1, 2, 4, 8, 16)
CONTEXTS = (64, 512, 2048, 8192)
LEAST_STEPS, MOST_STEPS = 24, 512  # that all sequences of a batch decode together
MOST_PATIENCE = 8
MOST_CACHED = 0.02  # of measured prompts: beyond it TTFT tells of the cache rather than of prefill


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt of so many tokens, unlike any other from its first token on."""

    prompt_tokens: int
    output_tokens: int
    point: str


Measure = Callable[[Sequence[Ask], int], Sequence[Reply]]  # asks, how many at once -> replies, in any order
Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Curves:
    """What was measured, and the two laws in it where they could be fitted."""

    prefill: tuple[TtftPoint, ...]
    decode: tuple[ItlPoint, ...]  # repeats of a batch and context as one
    ttft: TtftFit | None
    itl: ItlLaw | None
    cached_share: float | None  # of measured prompts; None: the server does not say
    failed: tuple[str, ...]  # why a law is missing
    seconds: float
    replies: tuple[Reply, ...]
    notes: tuple[str, ...] = ()


def measure_curves(
    measure: Measure,
    *,
    budget_s: float,
    window_tokens: int | None = None,
    longest_prompt: int | None = None,
    most_batch: int = BATCHES[-1],
    seed: int = 0,
    report: Report = lambda doing, share: None,
    clock: Callable[[], float] = monotonic,
) -> Curves:
    """Both phases within about `budget_s` seconds; window_tokens: the server's longest prompt with answer."""
    started = clock()
    most = min(longest_prompt or LONGEST, (window_tokens or 2 * LONGEST) - 4 * PREFILL_OUTPUT - 32)
    prefills = _prefills(measure, prompt_lengths(most), PREFILL_SHARE * budget_s, seed, report, clock)
    left_s = budget_s - (clock() - started)
    points, decodes, notes = _decodes(measure, prefills, window_tokens, most_batch, left_s, report, clock)
    return assembled(prefills, decodes, points, clock() - started, seed, notes)


def assembled(
    prefills: Sequence[Reply],
    decodes: Sequence[Reply],
    points: Sequence[Timed],
    seconds: float,
    seed: int,
    notes: Sequence[str] = (),
) -> Curves:
    """Fits both laws, where there is enough to fit."""
    failed: list[str] = []
    share = cached_share(prefills)
    ttft = _ttft_fit(prefills, share, seed, failed)
    law = None
    timed = [point for _, point in points]
    if len(timed) < FEWEST_ITL:
        failed.append(f"ITL: {len(timed)} points of batch and context were measured, {FEWEST_ITL} are needed")
    else:
        law = fit_itl(timed, seed)
    return Curves(
        prefill=ttft_points(prefills),
        decode=merged(points),
        ttft=ttft,
        itl=law,
        cached_share=share,
        failed=tuple(failed),
        seconds=seconds,
        replies=(*prefills, *decodes),
        notes=tuple(notes),
    )


def rebuilt(replies: Sequence[Reply], seconds: float, seed: int = 0) -> Curves:
    """From the replies of a run that was kept: their points name what was asked."""
    ordered = sorted(replies, key=lambda each: each.number)[1:]  # the first warmed the server up
    prefills = [each for each in ordered if each.point.startswith(PROMPT)]
    decodes = [each for each in ordered if each.point.startswith(BATCH)]
    groups: dict[str, list[Reply]] = {}
    for each in decodes:
        groups.setdefault(each.point, []).append(each)
    points: list[Timed] = []
    for name, own in groups.items():
        batch, context = int(name.split()[1]), int(name.split()[3])
        for begin in range(0, len(own), batch):
            point = itl_point(own[begin : begin + batch], batch)
            if point is not None:
                points.append(((batch, context), point))
    return assembled(prefills, decodes, points, seconds, seed)


def prompt_lengths(most: int) -> list[int]:
    """Doubling from the shortest on, with the longest itself as the last."""
    found = [SHORTEST]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    if most > 1.4 * found[-1]:
        found.append(most)
    return found


def _prefills(
    measure: Measure,
    lengths: Sequence[int],
    budget_s: float,
    seed: int,
    report: Report,
    clock: Callable[[], float],
) -> list[Reply]:
    """First once from short to long, as far as the budget goes; then rounds in random order.

    Rounds, rather than one length after the other, keep a server that slows down from bending the curve.
    """
    began = clock()
    replies: list[Reply] = []
    cost_s: dict[int, float] = {}

    def left_s() -> float:
        return budget_s - (clock() - began)

    def once(tokens: int) -> bool:
        asked = clock()
        found = measure([Ask(tokens, PREFILL_OUTPUT, f"{PROMPT}{tokens}")], 1)
        replies.extend(found)
        report(f"timing prompts of {tokens:,} tokens", PREFILL_SHARE * (1 - max(left_s(), 0) / budget_s))
        answered = any(each.outcome == "finished" for each in found)
        if answered:
            cost_s[tokens] = clock() - asked
        return answered

    once(lengths[0])  # a server's first answer is late: connections, caches, clocks
    replies.clear()
    for tokens in lengths:
        grown = 4 * cost_s.get(tokens // 2, 0.0)  # at worst, where it doubles
        if len(cost_s) >= FEWEST_TTFT and grown > left_s() / 2:
            break
        if not once(tokens):
            break
    if not cost_s:
        return replies
    rng = random.Random(seed)
    ends = sorted(cost_s)
    order = [tokens for tokens in ends for _ in range(REPEATS - 1)]
    order += [tokens for tokens in (ends[0], ends[-1]) for _ in range(2)]  # the ends hold the curve
    rng.shuffle(order)
    order.sort(key=_rounds())
    for tokens in order:
        if cost_s[tokens] <= left_s():
            once(tokens)
    return replies


def _rounds() -> Callable[[int], int]:
    """Sorts a shuffled order into rounds: the second of each length comes after the first of all."""
    seen: dict[int, int] = {}

    def turn(tokens: int) -> int:
        seen[tokens] = seen.get(tokens, 0) + 1
        return seen[tokens]

    return turn


def _ttft_fit(replies: Sequence[Reply], share: float | None, seed: int, failed: list[str]) -> TtftFit | None:
    if share is not None and share > MOST_CACHED:
        failed.append(
            f"TTFT: {share:.0%} of the prompts' tokens came from the server's prefix cache, more than "
            f"{MOST_CACHED:.0%}: the curve would be the cache's; switch prefix caching off"
        )
        return None
    points = typical(replies)
    if len({tokens for tokens, _ in points}) < FEWEST_TTFT:
        failed.append(f"TTFT: fewer than {FEWEST_TTFT} prompt lengths were answered")
        return None
    return fit_ttft(points, seed)


Decoded = tuple[list[Timed], list[Reply], list[str]]


def _decodes(
    measure: Measure,
    prefills: Sequence[Reply],
    window_tokens: int | None,
    most_batch: int,
    budget_s: float,
    report: Report,
    clock: Callable[[], float],
) -> Decoded:
    """A small grid, cheapest first, each corner as long as the budget lasts."""
    began = clock()
    points: list[Timed] = []
    replies: list[Reply] = []
    notes: list[str] = []
    known = ttft_points(prefills)
    if not known:
        return points, replies, notes
    longest = known[-1].prompt_tokens
    itl_s = 0.0
    patience = 1  # doubled where sequences did not come to decode together: requests start unevenly
    for batch, context in decode_order(most_batch, min(longest, (window_tokens or inf) / 2)):
        left_s = budget_s - (clock() - began)
        waiting_s = batch * _ttft_s(known, context)
        spent = itl_s * (1 + batch / 16)
        steps = LEAST_STEPS + (ceil(1.5 * waiting_s / itl_s) if itl_s else 0)
        steps = max(steps, min(patience * steps, MOST_STEPS))
        if window_tokens:
            steps = min(steps, window_tokens - context - 32)
        if points and (waiting_s + steps * spent > left_s or steps > MOST_STEPS):
            continue
        asks = [Ask(context, steps, f"{BATCH}{batch} context {context}") for _ in range(batch)]
        report(f"decoding {batch} of {context:,} tokens", 1 - 0.45 * max(left_s, 0) / max(budget_s, 1e-9))
        found = measure(asks, batch)
        replies.extend(found)
        if not found:
            break
        point = itl_point(found, batch)
        if point is None:
            notes.append(f"{batch} sequences of {context} tokens did not decode together long enough to time")
            patience = min(2 * patience, MOST_PATIENCE)
            continue
        points.append(((batch, context), point))
        itl_s = itl_s or point.itl_s
    return points, replies, notes


def decode_order(most_batch: int, longest: float) -> list[tuple[int, int]]:
    """(batch, context): corners of the grid first, then what lies between, twice over."""
    batches = [each for each in BATCHES if each <= most_batch]
    contexts = [each for each in CONTEXTS if each <= longest] or [max(1, int(longest))]
    low, high = (batches[0], contexts[0]), (batches[-1], contexts[-1])
    corners = [low, (batches[-1], contexts[0]), (batches[0], contexts[-1]), high]
    middle = [(batch, context) for context in contexts for batch in batches]
    middle.sort(key=lambda each: each[0] * each[1])
    once = list(dict.fromkeys([*corners[:3], *middle, high]))
    return [*once, *once]


def _ttft_s(known: Sequence[TtftPoint], tokens: int) -> float:
    """Of the next longer prompt that was timed."""
    return next((each.ttft_s for each in known if each.prompt_tokens >= tokens), known[-1].ttft_s)
