"""Seconds of each phase from curves that were measured of the same server.

The curves are those of `diagnose URL --json`: TTFT = a + b·n + c·n² of a prompt alone, and ITL =
a + b·batch + c·batch·context.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from twophase.counters.picture import Picture
from twophase.counters.share import Range, Share, share_of
from twophase.counters.steps import Steps, steps_of
from twophase.errors import InputError, damaged, require_regular


@dataclass(frozen=True, slots=True)
class Curves:
    """Each coefficient with its 95 % interval."""

    overhead_s: Range  # of a pass with a prompt
    token_s: Range  # of a prompt's token
    pair_s: Range  # of a token before it
    pass_s: Range  # of a decode pass
    sequence_s: Range
    context_s: Range  # of a token of a sequence's context


TTFT = ("overhead_s", "linear_s_per_token", "quadratic_s_per_token2")
ITL = ("pass_s", "sequence_s", "context_s_per_token")


def read_curves(path: Path) -> Curves:
    """InputError where the file has no fit of both phases."""
    require_regular(path)
    with damaged(path):
        found = json.loads(path.read_text(encoding="utf-8"))
    fit = found.get("fit") if isinstance(found, dict) else None
    if not isinstance(fit, dict) or not fit.get("ttft") or not fit.get("itl"):
        raise InputError(
            f"--curves {path}: no fit of both phases in it; `twophase diagnose URL --json` writes one"
        )
    with damaged(path):
        ranges = [*(_range(fit["ttft"][each]) for each in TTFT), *(_range(fit["itl"][each]) for each in ITL)]
    return Curves(*ranges)


def _range(own: Mapping[str, Any]) -> Range:
    mid = float(own["value"])
    low = float(own["low"])
    high = float(own["high"])  # a coefficient's interval ends; a turning point's may not
    if not all(isfinite(each) and each >= 0 for each in (low, mid, high)):
        raise ValueError("a coefficient is negative or not finite")
    return Range(min(low, mid), mid, max(high, mid))


def calibrated(own: Picture, curves: Curves) -> Share | str:
    steps = steps_of(own)
    if isinstance(steps, str):
        return steps
    prefill_s, decode_s = _prefill_s(steps, curves), _decode_s(steps, curves)
    why = [
        f"{steps.prefills:.0f} prompts of {steps.computed:.0f} computed tokens; "
        f"decode passes of {steps.batch.mid:.3g} sequences ({steps.batch.low:.3g} to {steps.batch.high:.3g}) "
        f"with {steps.context:.0f} tokens of context",
        "a prompt's own pass may be shared with decodes: with and without its overhead",
    ]
    total, covered = prefill_s.mid + decode_s.mid, own.covered_s
    if covered and total > covered:  # passes were shared then: prompts paid less than a pass of their own
        mid = min(max(covered - decode_s.mid, prefill_s.low), prefill_s.mid)
        prefill_s = Range(prefill_s.low, mid, max(mid, min(prefill_s.high, covered - decode_s.low)))
    if covered:
        shared = ": prompts shared passes with decodes" if total > covered else ""
        why.append(f"one by one they take {total:.3g} s of the window's {covered:.3g} s{shared}")
        if prefill_s.low + decode_s.low > covered:
            why.append("that is more than the window has: the curves are of another server, or several serve")
    return share_of("calibrated", prefill_s, decode_s, tuple(why))


def _prefill_s(steps: Steps, curves: Curves) -> Range:
    """Over a cached prefix only the pairs with it are paid: (p + c)² - c² of them."""
    n, pairs = steps.computed, (steps.computed + steps.cached) ** 2 - steps.cached**2

    def seconds(overhead: float, token: float, pair: float) -> float:
        return steps.prefills * (overhead + token * n + pair * pairs)

    return Range(
        seconds(0.0, curves.token_s.low, curves.pair_s.low),
        seconds(curves.overhead_s.mid, curves.token_s.mid, curves.pair_s.mid),
        seconds(curves.overhead_s.high, curves.token_s.high, curves.pair_s.high),
    )


def _decode_s(steps: Steps, curves: Curves) -> Range:
    """Passes of fewer sequences are more passes."""

    def seconds(batch: float, each: float, sequence: float, context: float) -> float:
        return steps.row_steps * (each / batch + sequence + context * steps.context)

    return Range(
        seconds(steps.batch.high, curves.pass_s.low, curves.sequence_s.low, curves.context_s.low),
        seconds(steps.batch.mid, curves.pass_s.mid, curves.sequence_s.mid, curves.context_s.mid),
        seconds(steps.batch.low, curves.pass_s.high, curves.sequence_s.high, curves.context_s.high),
    )
