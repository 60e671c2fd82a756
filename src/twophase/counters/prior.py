"""Seconds of each phase from the roofline's floors, where all else is silent."""

from twophase.cost.roofline import floor
from twophase.cost.spans import decodes, prefills
from twophase.counters.picture import Picture
from twophase.counters.prior_type import Prior
from twophase.counters.share import Range, Share, share_of
from twophase.counters.steps import steps_of

LONGEST = 1_000_000_000  # tokens
# Assumed: what real passes reach, of peak in prefill, and of bandwidth in decode, seldom all of it.
PREFILL_REACHES = Range(0.40, 0.55, 0.70)
DECODE_REACHES = Range(0.50, 0.70, 0.90)


def roofline(picture: Picture, prior: Prior) -> Share | str:
    steps = steps_of(picture)
    if isinstance(steps, str):
        return steps
    if max(steps.computed, steps.cached, steps.context, steps.batch.high) > LONGEST:
        return f"prompts, contexts or batches of more than {LONGEST:,} tokens are told, which can't be"
    own, accelerator = prior.own, prior.accelerator
    prompt = prefills(max(round(steps.computed), 1), round(steps.cached))
    prefill_s = steps.prefills * float(floor(own, prompt, accelerator, "expected").seconds)
    batches = [max(round(each), 1) for each in (steps.batch.low, steps.batch.mid, steps.batch.high)]
    step = floor(own, decodes(batches, round(steps.context)), accelerator, "expected").seconds
    most, usual, least = (
        steps.row_steps / batch * float(each) for batch, each in zip(batches, step, strict=True)
    )
    prefill = Range(*(prefill_s / each for each in _downwards(PREFILL_REACHES)))
    low, mid, high = (
        floor_s / reached
        for floor_s, reached in zip((least, usual, most), _downwards(DECODE_REACHES), strict=True)
    )
    decode = Range(low, mid, high)
    why = [
        f"floors of {own.spec.name} on {accelerator.title} ({own.plan}): {prefill_s:.3g} s of prefill, "
        f"{usual:.3g} s of decode in passes of {batches[1]} sequences ({batches[0]} to {batches[2]})",
        f"taken to reach {PREFILL_REACHES.low:.0%} to {PREFILL_REACHES.high:.0%} of peak in prefill and "
        f"{DECODE_REACHES.low:.0%} to {DECODE_REACHES.high:.0%} of bandwidth in decode",
    ]
    covered = picture.covered_s
    if covered and prefill_s + least > covered:
        why.append(
            f"the floors alone are more than the window's {covered:.3g} s: another model or accelerator, or "
            "several replicas"
        )
    return share_of("roofline", prefill, decode, tuple(why))


def _downwards(own: Range) -> tuple[float, float, float]:
    """Dividing by more gives less."""
    return own.high, own.mid, own.low
