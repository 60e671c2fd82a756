"""Measured curves beside the floors of a known model on a known accelerator."""

from dataclasses import dataclass

import numpy as np

from twophase.meter.curves import Curves
from twophase.meter.floors import Best, Floors
from twophase.meter.least_squares import Estimate

TRIED = (64, 128, 256)  # prompts whose floors tell its linear and its quadratic part


@dataclass(frozen=True, slots=True)
class Mark:
    """A measured pass against its floor; shares of the accelerator's peaks."""

    measured_s: float
    floor_s: float
    compute_s: float
    memory_s: float
    mfu: float
    mbu: float
    bound: str


@dataclass(frozen=True, slots=True)
class Beside:
    title: str
    prefill: tuple[Mark, ...]  # of each prompt length measured
    decode: tuple[Mark, ...]  # of each point of batch and context
    compute_bound_from_tokens: int | None  # the floor's
    compute_bound_batch: int | None  # at no context
    linear_mfu: float | None  # of the fit's linear part
    quadratic_mfu: float | None  # of attention's
    weights_mbu: float | None  # of what every decode pass pays
    sequence_mfu: float | None
    kv_mbu: float | None  # of what each token of context adds


def beside(curves: Curves, floors: Floors) -> Beside:
    weights = sequence = kv = linear = quadratic = None
    if curves.ttft:
        tokens = np.array(TRIED, np.float64)
        compute = [floors.prefill(each).compute_s for each in TRIED]
        square, slope, _ = np.polyfit(tokens, compute, 2).tolist()
        linear = share(slope, curves.ttft.linear_s_per_token)
        quadratic = share(square, curves.ttft.quadratic_s_per_token2)
    if curves.itl:
        bandwidth = floors.accelerator.bandwidth
        contexts = [each.context for each in curves.decode]
        span = (int(min(contexts)), int(max(contexts))) if contexts else (0, 0)
        span = span if span[1] > span[0] else (span[0], span[0] + 1024)
        weights = share(floors.pass_bytes() / bandwidth, curves.itl.pass_s)
        sequence = share(floors.sequence_flops_s(), curves.itl.sequence_s)
        kv = share(floors.context_bytes(span) / bandwidth, curves.itl.context_s_per_token)
    return Beside(
        title=floors.title,
        prefill=tuple(_mark(each.ttft_s, floors.prefill(each.prompt_tokens)) for each in curves.prefill),
        decode=tuple(
            _mark(each.itl_s, floors.decode(each.batch, int(each.context))) for each in curves.decode
        ),
        compute_bound_from_tokens=floors.compute_bound_from(),
        compute_bound_batch=floors.compute_bound_batch(0),
        linear_mfu=linear,
        quadratic_mfu=quadratic,
        weights_mbu=weights,
        sequence_mfu=sequence,
        kv_mbu=kv,
    )


def share(best_s: float, term: Estimate) -> float | None:
    """None where the fit can't tell the term from no time at all: a share of that could have any size."""
    return best_s / term.value if term.low > 0 and best_s > 0 else None


def _mark(measured_s: float, best: Best) -> Mark:
    return Mark(
        measured_s=measured_s,
        floor_s=best.floor_s,
        compute_s=best.compute_s,
        memory_s=best.memory_s,
        mfu=best.compute_s / measured_s,
        mbu=best.memory_s / measured_s,
        bound=best.bound,
    )
