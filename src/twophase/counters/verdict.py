"""One line: which phase dominates GPU time, and how sure that is."""

from collections.abc import Sequence
from typing import Literal

from twophase.counters.phase_share import WIDE
from twophase.counters.picture import Picture
from twophase.counters.share import Share
from twophase.counters.workload import Workload
from twophase.units import percent

Dominant = Literal["prefill", "decode", "neither", "unknown"]
EVEN = 0.1  # as near to a half as that, neither dominates


def dominant(shares: Sequence[Share]) -> Dominant:
    """By the best method; unknown where its interval says nothing."""
    if not shares or shares[0].prefill.high - shares[0].prefill.low > WIDE:
        return "unknown"
    own = shares[0].prefill
    if own.low >= 0.5:
        return "prefill"
    if own.high <= 0.5:
        return "decode"
    if abs(own.mid - 0.5) < EVEN:
        return "neither"
    return "prefill" if own.mid > 0.5 else "decode"


def verdict(own: Picture, shares: Sequence[Share], kind: Workload | None) -> str:
    if not own.prompt_tokens and not own.generation_tokens:
        return "Nothing was served in this window."
    phase = dominant(shares)
    traffic = f" The traffic resembles {kind.kind} ({kind.says})." if kind else ""
    if phase == "unknown":
        listed = own.prompt_tokens is None and own.computed_prompt_tokens is not None  # iterations: no floors
        asked = any(each.method == "roofline" for each in shares)
        known = "" if listed or asked else " --gpu NAME estimates it from the model's floors."
        return f"Which phase dominates GPU time these counters do not tell.{known}{traffic}"
    best = shares[0]
    between = (
        "" if best.method == "engine" else f", {percent(best.prefill.low)} to {percent(best.prefill.high)}"
    )
    crosses = best.prefill.low < 0.5 < best.prefill.high
    head = {
        "prefill": "Prefill dominates GPU time",
        "decode": "Decode dominates GPU time",
        "neither": "Neither phase dominates GPU time",
    }[phase]
    if crosses and phase != "neither":
        head = head.replace("dominates", "probably dominates")
    return f"{head}: prefill has {percent(best.prefill.mid)} of it ({best.method}{between}).{traffic}"
