"""What limits a pass, and the verdict on a request: which phase, what binds it, what would pay most."""

from collections.abc import Mapping, Sequence

from twophase.advise.diagnosis import (
    Advice,
    Bend,
    Bound,
    DecodeRow,
    Phase,
    PrefillRow,
    RequestSplit,
    Roofs,
    Verdict,
)
from twophase.advise.evidence import Evidence, PhaseCost, gather
from twophase.advise.levers import all_levers
from twophase.units import count, duration, percent, quantity, times

IDLE = 0.25  # both resources used less than this: neither explains the time


def bound_of(*, measured_s: float, compute_s: float, memory_s: float) -> Bound:
    """What limits a pass: the larger side of its floor, or overhead where neither explains its time."""
    if max(compute_s, memory_s) < IDLE * measured_s:
        return "overhead"
    return "compute" if compute_s >= memory_s else "memory"


def judge(
    *,
    prefill: Sequence[PrefillRow],
    decode: Sequence[DecodeRow],
    fit: Bend,
    request: RequestSplit,
    roofs: Roofs,
    narrower: Mapping[str, float],
    weight_bytes: float,
    kv_bytes_per_token: float,
) -> Verdict:
    """The verdict on the reference request. Needs a prefill row, and a decode row of batch 1. `narrower`: by
    format that weights could be kept in, the share of their bytes that is left."""
    case = gather(
        prefill=prefill,
        decode=decode,
        fit=fit,
        request=request,
        weight_bytes=weight_bytes,
        kv_bytes_per_token=kv_bytes_per_token,
    )
    ranked = tuple(sorted(all_levers(case, narrower), key=rank))
    cost = cost_of(case, request.dominant)
    at_full_speed = cost.measured_s * cost.roof_share  # had the machine not slowed down meanwhile
    bound = bound_of(measured_s=at_full_speed, compute_s=cost.compute_s, memory_s=cost.memory_s)
    summary = " ".join(
        (where(case, request.dominant), limit(case, request.dominant, bound, roofs), remedy(ranked))
    )
    return Verdict(request.dominant, bound, summary, ranked)


def rank(each: Advice) -> tuple[bool, bool, bool, float]:
    """What makes this request faster, by gain; what serves more; what asks for less; then the rest."""
    workload = each.kind == "workload"
    return (not each.helps, workload, each.gain is None, -(each.gain or each.throughput_gain or 1.0))


def cost_of(case: Evidence, phase: Phase) -> PhaseCost:
    return case.prefill if phase == "prefill" else case.decode


def where(case: Evidence, dominant: Phase) -> str:
    share = cost_of(case, dominant).measured_s / case.total_s
    return (
        f"{dominant.capitalize()} takes {percent(share)} of a request of {count(case.prompt_tokens)} tokens "
        f"in and {count(case.output_tokens)} out: prefill {duration(case.prefill.measured_s)}, "
        f"decode {duration(case.decode.measured_s)}."
    )


def limit(case: Evidence, dominant: Phase, bound: Bound, roofs: Roofs) -> str:
    cost = cost_of(case, dominant)
    if bound == "overhead":
        return (
            f"Neither resource explains its time: it uses {percent(cost.mfu)} of the FLOP/s and "
            f"{percent(cost.mbu)} of the memory bandwidth, so the rest is overhead of the software."
        )
    if bound == "compute":
        peak = quantity(roofs.flops_per_s, "FLOP/s")
        return f"Arithmetic limits it: it runs at {percent(cost.mfu)} of this machine's {peak}."
    moved = f"{quantity(case.pass_weight_bytes, 'B')} of weights"
    if dominant == "decode":
        moved = f"every token reads {moved} and {quantity(case.pass_kv_bytes, 'B')} of KV cache"
    else:
        moved = f"so short a prompt still reads {moved}"
    peak = quantity(roofs.read_bytes_per_s, "B/s")
    return f"Memory limits it: {moved}, at {percent(cost.mbu)} of this machine's {peak}."


def remedy(ranked: Sequence[Advice]) -> str:
    """The two best changes of engine or machine, and two that would not pay: the machine's first."""
    priced = [(each, each.gain) for each in ranked if each.kind != "workload" and each.gain is not None]
    best = [named(each, gain) for each, gain in priced if each.helps][:2]
    idle = sorted((each.kind != "machine", gain, each.change) for each, gain in priced if not each.helps)
    would = f"What would help most: {', then '.join(best)}." if best else "No single change here pays much."
    would_not = " or ".join(f"{lowered(change)} ({times(gain)})" for _, gain, change in idle[:2])
    return f"{would} What would not: {would_not}." if would_not else would


def named(each: Advice, gain: float) -> str:
    return f"{lowered(each.change)} ({times(gain)})"


def lowered(change: str) -> str:
    """A change within a sentence: only a word that is not an acronym loses its capital."""
    return change if change.split(maxsplit=1)[0].isupper() else change[0].lower() + change[1:]
