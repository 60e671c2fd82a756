"""Why a lever helps a deployment, or doesn't: the arithmetic of its passes in a line."""

from collections.abc import Callable, Mapping

from twophase.advise.changes import Now
from twophase.advise.diagnosis import Phase
from twophase.advise.known import REACHABLE
from twophase.advise.point import Work
from twophase.units import count, duration, percent, significant

OF_WEIGHTS = ("int8-weights", "int4-weights")


def why(lever: str, now: Now, after: Now) -> str:
    return REASONS[lever](now, after)


def takes(now: Now, phase: Phase) -> str:
    return f"{phase} takes {percent(now.point.share(phase))} of the passes' time"


def sides(work: Work) -> str:
    return f"{duration(work.compute_s)} of arithmetic against {duration(work.memory_s)} of memory"


def a_pass(now: Now) -> str:
    rows = round(now.point.batch)
    return f"a decode pass of {count(rows)} sequence{'s' if rows > 1 else ''}"


def fewer_bytes(now: Now, after: Now) -> str:
    decode, prefill = now.point.decode, now.point.prefill
    said = f"{a_pass(now)} spends {percent(decode.weight_share)} of its bytes on weights"
    said += f" ({sides(decode)})"
    if prefill.compute_s > prefill.memory_s:
        said += f"; prefill is bound by arithmetic ({sides(prefill)}), which fewer bytes leave as it is"
    return f"{said}; {takes(now, now.point.dominant)}"


def fewer_flops(now: Now, after: Now) -> str:
    decode, prefill = now.point.decode, now.point.prefill
    said = f"a prompt is {sides(prefill)}"
    if decode.compute_s < decode.memory_s:
        said += f"; {a_pass(now)} is {sides(decode)}: faster arithmetic leaves it as it is"
    return f"{said}; {takes(now, now.point.dominant)}"


def eight_bits(now: Now, after: Now) -> str:
    decode = now.point.decode
    flops = now.setup.accelerator.flops
    said = "weights take half the bytes, and are widened to 16 bits to be multiplied"
    if "fp8" in flops:
        times = flops["fp8"] / flops["bf16"] if "bf16" in flops else 1.0
        faster = f"multiplies {times:.3g} times as fast" if times > 1 else "multiplies no faster in 8 bits"
        said = f"a prompt is {sides(now.point.prefill)}, and {faster}"
    if decode.memory_s > decode.compute_s:
        said += (
            f"; {a_pass(now)} gains by half the weight bytes alone ({percent(decode.weight_share)} of all)"
        )
    return f"{said}; {takes(now, now.point.dominant)}"


def fewer_kv_bytes(now: Now, after: Now) -> str:
    decode = now.point.decode
    room = f"the cache holds {count(after.seats)} such sequences in place of {count(now.seats)}"
    return (
        f"{percent(1 - decode.weight_share)} of the bytes of {a_pass(now)} are KV cache, at "
        f"{count(now.point.context)} tokens of context; {room}"
    )


def speculating(now: Now, after: Now) -> str:
    drafts, rate = after.setup.drafts, after.setup.acceptance
    tokens = float(drafts + 1) if rate == 1 else (1 - rate ** (drafts + 1)) / (1 - rate)
    decode = now.point.decode
    binds = "memory" if decode.memory_s > decode.compute_s else "arithmetic"
    return (
        f"{tokens:.2f} tokens a pass, whose {drafts + 1} rows a sequence are checked together; {binds} binds "
        f"{a_pass(now)} ({sides(decode)}); {takes(now, 'decode')}"
    )


def found_again(now: Now, after: Now) -> str:
    before, left = now.point.prefill.seconds, after.point.prefill.seconds
    return (
        f"what is found again is not computed: a prompt takes {duration(left)} in place of "
        f"{duration(before)}; {takes(now, 'prefill')}"
    )


def batched(now: Now, after: Now) -> str:
    return (
        f"a decode pass has {significant(now.point.batch)} sequences, then {significant(after.point.batch)}: "
        f"{duration(now.point.decode.seconds)}, then {duration(after.point.decode.seconds)} a pass"
    )


def chunked(now: Now, after: Now) -> str:
    tokens = after.pool.limits.budget
    if now.point.prompt_tokens <= min(tokens, now.pool.limits.budget):
        return f"prompts of {count(now.point.prompt_tokens)} tokens go in one pass either way"
    times = after.pool.estimate.times
    at = min(tokens, len(times.rows_s) - 1)
    return (
        f"a pass of {count(tokens)} rows takes about {duration(float(times.rows_s[at]))}, and so long those "
        f"who decode wait for their next token; {takes(now, 'prefill')}"
    )


def ordered(now: Now, after: Now) -> str:
    return (
        f"a prompt takes {duration(now.point.prefill.seconds)}: those who decode wait for it where it goes "
        f"first, its first token waits for them where they do; {takes(now, 'prefill')}"
    )


def reached(phase: Phase) -> Callable[[Now, Now], str]:
    def said(now: Now, after: Now) -> str:
        work = now.point.work(phase)
        floor = max(work.compute_s, work.memory_s)
        what = "a prompt" if phase == "prefill" else a_pass(now)
        tail = f", {percent(work.attention)} of whose FLOPs are attention's" if phase == "prefill" else ""
        return (
            f"{what} takes {duration(work.seconds)}{tail}; at {percent(REACHABLE)} of its floor's speed "
            f"it would take {duration(floor / REACHABLE)}; {takes(now, phase)}"
        )

    return said


def shared_out(now: Now, after: Now) -> str:
    return (
        f"a prompt takes {duration(now.point.prefill.seconds)}, "
        f"then {duration(after.point.prefill.seconds)}; "
        f"a decode pass {duration(now.point.decode.seconds)}, then {duration(after.point.decode.seconds)}"
        + (", with exchanges between devices" if after.setup.plan.tp > now.setup.plan.tp else "")
    )


def apart(now: Now, after: Now) -> str:
    return (
        f"no prompt ({duration(now.point.prefill.seconds)}) stalls a decode pass "
        f"({duration(now.point.decode.seconds)}) any more; {takes(now, 'prefill')}"
    )


def asked_less(now: Now, after: Now) -> str:
    return (
        f"{count(after.point.prompt_tokens)} tokens in and {count(after.point.output_tokens)} out; "
        f"{takes(now, 'prefill')}"
    )


REASONS: Mapping[str, Callable[[Now, Now], str]] = {
    **dict.fromkeys(OF_WEIGHTS, fewer_bytes),
    "fp8": eight_bits,
    "fp8-arithmetic": fewer_flops,
    **dict.fromkeys(("kv-fp8", "kv-int8"), fewer_kv_bytes),
    "speculation": speculating,
    "prefix-cache": found_again,
    **dict.fromkeys(("larger-batch", "smaller-batch"), batched),
    **dict.fromkeys(("larger-chunk", "smaller-chunk"), chunked),
    **dict.fromkeys(("prefill-first", "decode-first"), ordered),
    "prefill-kernels": reached("prefill"),
    "decode-kernels": reached("decode"),
    **dict.fromkeys(("more-tp", "more-pp", "more-flops", "more-bandwidth"), shared_out),
    "disaggregation": apart,
    **dict.fromkeys(("shorter-prompt", "shorter-output"), asked_less),
}
