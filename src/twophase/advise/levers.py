"""What one could change, and what arithmetic expects of each change for the reference request.

One rule throughout: a lever moves the floor of a phase, and the request gets faster by what its floor loses.
The gap between measured and floor stays as measured, except in the levers that close it. Gains are therefore
what the bytes and operations alone promise: T / (T - saved) over the measured split (Amdahl).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twophase.advise.bend import ttft_at
from twophase.advise.diagnosis import Advice, Kind, Phase
from twophase.advise.evidence import Evidence, PhaseCost, batch_series, line, share
from twophase.advise.known import ACCEPTANCE, DRAFTS, REACHABLE, known_levers
from twophase.units import count, duration, percent, quantity, significant, times

MIN_GAIN = 1.1  # less than a tenth drowns in how much machines wander


@dataclass(frozen=True, slots=True)
class Saving:
    """Seconds off each phase of the request."""

    prefill_s: float = 0.0
    decode_s: float = 0.0


def all_levers(case: Evidence, narrower: Mapping[str, float]) -> list[Advice]:
    """Those of the list that measured passes tell about, in no order. What acts on a load (chunks, policies,
    more devices, phases apart) doesn't move one request alone: `advise` simulates it. `narrower`: by format
    of the weights, the share of their bytes that is left.
    """
    found = {
        **{f"{name}-weights": quantised_weights(case, name, left) for name, left in narrower.items()},
        "kv-int8": halved_kv(case),
        "speculation": speculation(case),
        "prefix-cache": prefix_caching(case),
        "shorter-prompt": shorter_prompt(case),
        "shorter-output": shorter_output(case),
        "more-bandwidth": more_bandwidth(case),
        "more-flops": more_arithmetic(case),
        "prefill-kernels": better_kernels(case, "prefill"),
        "decode-kernels": better_kernels(case, "decode"),
        "larger-batch": batching(case),
    }
    return [listed(key, each) for key, each in found.items() if each is not None]


def listed(key: str, own: Advice) -> Advice:
    """With what the list says of the lever: its price, and how to turn it on."""
    known = known_levers()[key]
    filled = known.filled({})
    return replace(own, lever=key, price=filled.price, flags=filled.flags)


def advice(
    case: Evidence, change: str, phase: Phase, saving: Saving, why: str, *, kind: Kind = "engine"
) -> Advice:
    gain = case.total_s / (case.total_s - saving.prefill_s - saving.decode_s)
    share = getattr(case, phase).measured_s / case.total_s
    if share < 0.5:  # Amdahl is part of the reason
        why += f"; {phase} is {percent(share)} of the request"
    return Advice(change, phase, gain, why, helps=gain >= MIN_GAIN, kind=kind)


def quantised_weights(case: Evidence, name: str, left: float) -> Advice:
    cut = 1 - left
    saving = Saving(
        *(cost.saved_s(memory_s=cost.memory_s - cut * cost.weight_s) for cost in (case.prefill, case.decode))
    )
    change = f"{name.upper()} weights"
    if saving.decode_s > 0:
        why = (
            f"weights are {percent(case.decode.weight_share)} of the bytes of a decode pass; "
            f"of {quantity(case.pass_weight_bytes, 'B')} they leave "
            f"{quantity(case.pass_weight_bytes * left, 'B')}"
        )
    else:
        why = "decode is bound by arithmetic at this batch, which fewer bytes do not relieve"
    if case.prefill.compute_s >= case.prefill.memory_s:
        why += "; prefill is bound by arithmetic and stays"
    return advice(case, change, "decode", saving, why)


def halved_kv(case: Evidence) -> Advice:
    saving = Saving(
        *(cost.saved_s(memory_s=cost.memory_s - cost.kv_s / 2) for cost in (case.prefill, case.decode))
    )
    why = (
        f"the KV cache is {percent(1 - case.decode.weight_share)} of the bytes of a decode pass "
        f"({quantity(case.pass_kv_bytes, 'B')} at context {count(case.middle_context)})"
    )
    return advice(case, "KV cache in half the bits", "decode", saving, why)


def speculation(case: Evidence) -> Advice:
    """Drafts are taken as free (n-gram lookup); checking them costs what a batch of as many rows costs."""
    tokens = (1 - ACCEPTANCE ** (DRAFTS + 1)) / (1 - ACCEPTANCE)
    cost, source = verification_cost(case)
    saving = Saving(decode_s=max(0.0, case.decode.measured_s * (1 - cost / tokens)))
    why = (
        f"{DRAFTS} cheap drafts at {percent(ACCEPTANCE)} acceptance give {tokens:.2f} tokens a pass, "
        f"and checking {DRAFTS + 1} rows costs {times(cost)} a pass of one ({source})"
    )
    return advice(case, "Speculative decoding", "decode", saving, why)


def verification_cost(case: Evidence) -> tuple[float, str]:
    """Time of a pass of 1 + DRAFTS rows over a pass of one, and where that comes from.

    A batch reads the KV cache of each sequence where a verification reads one, so this errs on the dear side.
    """
    rows = batch_series(case.decode_rows)
    if len(rows) < 2 or rows[-1].batch < DRAFTS + 1:
        cost = case.decode
        return max(cost.memory_s, (DRAFTS + 1) * cost.compute_s) / cost.floor_s, "by its floor"
    itl = line(DRAFTS + 1, [row.batch for row in rows], [row.itl_s for row in rows])
    # More rows never cost less: where they seem to, the machine sped up in between.
    return max(1.0, itl / rows[0].itl_s), f"measured at batch {DRAFTS + 1}"


def batching(case: Evidence) -> Advice | None:
    """Requests side by side: none gets faster, the machine serves more. None if only batch 1 was measured."""
    rows = batch_series(case.decode_rows)
    if len(rows) < 2:
        return None
    one, best = rows[0], max(rows, key=lambda row: row.batch / row.itl_s)
    if best is one:
        why = f"no batch measured here gives more than the {significant(1 / one.itl_s)} tokens/s of batch 1"
        return Advice("Batching", "decode", None, why, helps=False, throughput_gain=1.0)
    faster = best.batch / best.itl_s * one.itl_s
    throughput = case.total_s / (case.prefill.measured_s + case.decode.measured_s / faster)
    why = (
        f"batch {best.batch} decodes {significant(best.batch / best.itl_s)} tokens/s, batch 1 "
        f"{significant(1 / one.itl_s)}; each stream's ITL goes {duration(one.itl_s)} → "
        f"{duration(best.itl_s)}; prefill shares nothing"
    )
    helps = throughput >= MIN_GAIN
    return Advice(f"Batch {best.batch}", "decode", None, why, helps, throughput_gain=throughput)


def less_prefill(cost: PhaseCost, share: float) -> float:
    """Seconds saved where `share` of prefill need not run; one pass over the weights always must."""
    return cost.measured_s * min(share, 1 - cost.memory_s / cost.floor_s)


def prefix_caching(case: Evidence) -> Advice:
    """Half of the prompt lies in the cache: its own prefill is saved, less what every pass costs anyway."""
    half = ttft_at(case.fit, case.prompt_tokens / 2) - case.fit.overhead_s
    saving = Saving(prefill_s=less_prefill(case.prefill, half / ttft_at(case.fit, case.prompt_tokens)))
    why = (
        f"with half of the prompt cached, prefill goes {duration(case.prefill.measured_s)} → "
        f"{duration(case.prefill.measured_s - saving.prefill_s)}"
    )
    return advice(case, "Prefix caching", "prefill", saving, why)


def shorter_prompt(case: Evidence) -> Advice:
    decode = case.decode
    left = ttft_at(case.fit, case.prompt_tokens / 2) / ttft_at(case.fit, case.prompt_tokens)
    kv_cut = case.prompt_tokens / 2 / case.middle_context
    saving = Saving(
        less_prefill(case.prefill, 1 - left), decode.saved_s(memory_s=decode.memory_s - decode.kv_s * kv_cut)
    )
    why = (
        f"half the prompt takes {duration(saving.prefill_s)} off prefill and {duration(saving.decode_s)} "
        f"off decode's KV reads"
    )
    return advice(case, "Half the prompt", "prefill", saving, why, kind="workload")


def shorter_output(case: Evidence) -> Advice:
    saving = Saving(decode_s=case.decode.measured_s / 2)
    return advice(case, "Half the output", "decode", saving, "half the passes of decode", kind="workload")


def more_bandwidth(case: Evidence) -> Advice:
    saving = Saving(*(cost.saved_s(memory_s=cost.memory_s / 2) for cost in (case.prefill, case.decode)))
    side = "memory" if case.decode.memory_s > case.decode.compute_s else "arithmetic"
    why = f"{side} binds decode, which uses {percent(case.decode.mbu)} of the bandwidth there is"
    return advice(case, "Twice the memory bandwidth", "decode", saving, why, kind="machine")


def more_arithmetic(case: Evidence) -> Advice:
    saving = Saving(*(cost.saved_s(compute_s=cost.compute_s / 2) for cost in (case.prefill, case.decode)))
    binds = "arithmetic" if case.prefill.compute_s >= case.prefill.memory_s else "memory"
    why = f"{binds} binds prefill; a decode pass uses {percent(case.decode.mfu)} of the FLOP/s there are"
    return advice(case, "Twice the FLOP/s, as by FP8 arithmetic", "prefill", saving, why, kind="machine")


def better_kernels(case: Evidence, phase: Phase) -> Advice:
    cost: PhaseCost = getattr(case, phase)
    floor_s = cost.floor_s / cost.roof_share  # at the speed that the machine had meanwhile
    saving = max(0.0, cost.measured_s - floor_s / REACHABLE)
    slower = " as fast as the machine was meanwhile" if cost.roof_share < 0.995 else ""
    why = (
        f"{phase} takes {duration(cost.measured_s)}, its floor{slower} is {duration(floor_s)}: it runs at "
        f"{percent(share(floor_s, cost.measured_s))} of the floor's speed"
    )
    change = f"{phase.capitalize()} at {percent(REACHABLE)} of its floor's speed"
    return advice(case, change, phase, Saving(**{f"{phase}_s": saving}), why)
