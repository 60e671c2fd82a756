"""Each lever as a change of a deployment or of its load, or the reason why it can't be pulled here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from twophase.advise.known import DRAFTS, REACHABLE
from twophase.advise.load import Load
from twophase.advise.machines import with_more
from twophase.advise.point import Point
from twophase.advise.setup import Kernels, Setup
from twophase.cost.parallel import Plan, require_divisible
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator
from twophase.model.formats import KV_FORMATS
from twophase.model.quantization import uniform
from twophase.simulate.pools import Pool

LEAST_CHUNK, SMALLER = 512, 4  # tokens; a smaller chunk is such a part of the one that there is
MOST_OF_KERNELS = f"kernels at {REACHABLE:.0%} of their floor's speed, the most to hope for"


@dataclass(frozen=True, slots=True)
class Now:
    """The deployment as it stands. `shared`, `acceptance`: what is assumed where nothing says it."""

    setup: Setup
    load: Load
    pool: Pool
    point: Point
    seats: int  # sequences that it can serve at once
    shared: float
    acceptance: float


@dataclass(frozen=True, slots=True)
class Change:
    setup: Setup
    load: Load
    title: str = ""  # where it says more than the lever's own
    assumed: str = ""  # what the figure depends on
    flags: Mapping[str, object] = field(default_factory=dict)  # that fill in the lever's flags and price
    rival: Setup | None = None  # the same devices, used as they were
    other_kernels: bool = True  # passes take other times: their errors don't cancel


class RefusedError(Exception):
    """Why a lever can't be pulled, in a sentence's words."""


def int8_weights(now: Now) -> Change:
    return weights(now, "int8-weight-only", 8)


def int4_weights(now: Now) -> Change:
    return weights(now, "int4", 4)


def weights(now: Now, format: str, bits: int) -> Change:
    own = now.setup.model.storage
    if own.linear.bits <= bits:
        raise RefusedError(f"weights are stored in {own.name} already")
    return Change(in_format(now.setup, format), now.load)


def fp8(now: Now) -> Change:
    own = now.setup.model.storage
    if own.linear.bits < 8:
        raise RefusedError(f"weights are stored in {own.name}, in fewer bits")
    if own.linear.bits <= 8 and own.linear.arithmetic == "fp8":
        raise RefusedError(f"weights are stored in {own.name} already, and multiplied so")
    title = "" if "fp8" in now.setup.accelerator.flops else "FP8 weights (no FP8 arithmetic here)"
    return Change(in_format(now.setup, "fp8"), now.load, title)


def fp8_arithmetic(now: Now) -> Change:
    own, accelerator = now.setup.model.storage, now.setup.accelerator
    if "fp8" not in accelerator.flops:
        raise RefusedError(f"{accelerator.title} has no FP8 arithmetic")
    if (now.setup.arithmetic or own.linear.arithmetic) in ("fp8", "fp4"):
        raise RefusedError(f"{own.name} is multiplied in 8 bits or fewer already")
    return Change(replace(now.setup, arithmetic="fp8"), now.load)


def in_format(own: Setup, format: str) -> Setup:
    return replace(own, model=replace(own.model, storage=uniform(format)))


def kv_fp8(now: Now) -> Change:
    return kv(now, "fp8")


def kv_int8(now: Now) -> Change:
    return kv(now, "int8")


def kv(now: Now, format: str) -> Change:
    if KV_FORMATS[now.setup.kv] <= KV_FORMATS[format]:
        raise RefusedError(f"the KV cache is stored in {now.setup.kv} already")
    return Change(replace(now.setup, kv=format), now.load)


def twin_of(lever: str, accelerator: Accelerator) -> str:
    """The lever whose simulation is this one's, too: as many bytes, and arithmetic of the same speed."""
    alike = accelerator.peak("fp8") == accelerator.peak("int8")
    return "kv-fp8" if lever == "kv-int8" and alike else lever


def speculation(now: Now) -> Change:
    if now.setup.drafts:
        raise RefusedError(f"{now.setup.drafts} drafts are verified in each pass already")
    return Change(
        replace(now.setup, drafts=DRAFTS, acceptance=now.acceptance),
        now.load,
        assumed=f"{DRAFTS} drafts a pass, free to make, each accepted with chance {now.acceptance:g}",
    )


def prefix_cache(now: Now) -> Change:
    sizes, load = now.setup.sizes, now.load
    known = load.shared > 0 or (load.recorded is not None and load.recorded.content is not None)
    if known and sizes.prefix_cache:
        raise RefusedError("it is on already, and finds what these prompts share")
    own = replace(now.setup, sizes=replace(sizes, prefix_cache=True))
    if known:
        return Change(own, load, other_kernels=False)
    if load.prompt_tokens * now.shared < sizes.block_size:
        raise RefusedError(f"prompts of {load.prompt_tokens:,.0f} tokens share no whole block")
    return Change(
        own,
        replace(load, shared=now.shared),
        title=f"Prefix caching, {now.shared:.0%} of each prompt a shared beginning",
        assumed=f"{now.shared:.0%} of each prompt is shared: what yours share decides",
        other_kernels=False,
    )


def larger_batch(now: Now) -> Change:
    cap = now.pool.max_sequences
    held = int(now.seats / now.pool.replicas)
    if now.load.clients is not None:
        if now.load.clients >= now.seats:
            raise RefusedError(f"{now.seats:,} sequences fill the KV cache or the engine's limit already")
        more = min(2 * now.load.clients, now.seats)
        own = replace(now.setup, sizes=replace(now.setup.sizes, max_sequences=max(cap, more)))
        return Change(
            own,
            replace(now.load, clients=more),
            title=f"Larger batch: {more:,} requests at once",
            flags={"sequences": max(cap, more)},
            other_kernels=False,
        )
    if held < cap:
        raise RefusedError(
            f"the KV cache holds {held:,} sequences of this length, the engine would run {cap:,}: "
            "only more room in it makes the batch larger"
        )
    own = replace(now.setup, sizes=replace(now.setup.sizes, max_sequences=2 * cap))
    return Change(
        own,
        now.load,
        title=f"Larger batch: {2 * cap:,} sequences at most",
        flags={"sequences": 2 * cap},
        other_kernels=False,
    )


def smaller_batch(now: Now) -> Change:
    batch = (now.load.clients or now.point.most_at_once) / now.pool.replicas
    batch = min(batch, now.pool.max_sequences)
    if batch < 2:
        raise RefusedError("one request is served at a time: no batch is smaller")
    cap = max(1, ceil(batch / 2))
    return Change(
        replace(now.setup, sizes=replace(now.setup.sizes, max_sequences=cap)),
        now.load,
        title=f"Smaller batch: {cap:,} sequences at most",
        flags={"sequences": cap},
        other_kernels=False,
    )


def larger_chunk(now: Now) -> Change:
    budget = now.pool.limits.budget
    return chunk(now, 2 * budget)


def smaller_chunk(now: Now) -> Change:
    budget = now.pool.limits.budget
    smaller = max(LEAST_CHUNK, budget // SMALLER, now.setup.sizes.max_sequences or 1)
    if smaller >= budget:
        raise RefusedError(f"a pass has {budget:,} rows at most, few already")
    return chunk(now, smaller)


def chunk(now: Now, tokens: int) -> Change:
    return Change(
        replace(now.setup, sizes=replace(now.setup.sizes, max_tokens=tokens)),
        now.load,
        title=f"Chunks of {tokens:,} tokens in place of {now.pool.limits.budget:,}",
        flags={"tokens": tokens},
        other_kernels=False,
    )


def prefill_first(now: Now) -> Change:
    return policy(now, "prefill-first", ("prefill-first", "sglang"))


def decode_first(now: Now) -> Change:
    return policy(now, "decode-first", ("decode-first", "vllm"))


def policy(now: Now, name: str, same: tuple[str, ...]) -> Change:
    if now.setup.policy in same:
        raise RefusedError("the scheduler does that already")
    return Change(replace(now.setup, policy=name), now.load, other_kernels=False)


def prefill_kernels(now: Now) -> Change:
    require_gap(now)
    return Change(replace(now.setup, kernels=Kernels(prefill=True)), now.load, assumed=MOST_OF_KERNELS)


def decode_kernels(now: Now) -> Change:
    require_gap(now)
    own = replace(now.setup, kernels=Kernels(decode=True))
    flags = {"sequences": now.pool.max_sequences}
    return Change(own, now.load, assumed=MOST_OF_KERNELS, flags=flags)


def require_gap(now: Now) -> None:
    if now.setup.provenance == "floor" and now.setup.calibration is None:
        raise RefusedError(
            "passes are taken at their floor's speed here: no kernel is faster (see --clock curves)"
        )


def more_tp(now: Now) -> Change:
    plan, spec = now.setup.plan, now.setup.model.spec
    devices = now.setup.accelerator.devices_per_node
    for tp in (2 * plan.tp, 3 * plan.tp, 4 * plan.tp):
        wider = replace(plan, tp=tp)
        if plan.ep == 1 and tp > devices:
            raise RefusedError(f"{devices} {now.setup.accelerator.title} reach one another over a fast link")
        try:
            require_divisible(spec, wider)
        except InputError:
            continue
        return machines(now, wider, {"tp": tp})
    raise RefusedError(f"the heads of {spec.name} can't be dealt over more devices evenly")


def more_pp(now: Now) -> Change:
    plan = now.setup.plan
    if 2 * plan.pp > len(now.setup.model.spec.layers):
        raise RefusedError("there are not so many layers")
    return machines(now, replace(plan, pp=2 * plan.pp), {"pp": 2 * plan.pp})


def machines(now: Now, plan: Plan, flags: Mapping[str, object]) -> Change:
    own = replace(now.setup, plan=plan)
    title = f"{own.devices} devices in place of {now.setup.devices}: {plan}"
    return Change(own, now.load, title, flags={**flags, "factor": own.devices / now.setup.devices})


def disaggregation(now: Now) -> Change:
    if now.setup.split is not None:
        raise RefusedError("the phases have pools of their own already")
    share = now.point.prefill_share
    unit = now.setup.replicas
    prefill, decode = (2, 1) if share > 0.6 else (1, 2) if share < 0.35 and unit > 1 else (1, 1)
    own = replace(now.setup, split=(prefill * unit, decode * unit), replicas=1)
    return Change(
        own,
        now.load,
        title=f"{prefill * unit} prefill and {decode * unit} decode replicas in place of {unit} of both",
        flags={"factor": own.devices / now.setup.devices},
        rival=replace(now.setup, replicas=(prefill + decode) * unit),
        other_kernels=False,
    )


def more_flops(now: Now) -> Change:
    return other_machine(now, "flops")


def more_bandwidth(now: Now) -> Change:
    return other_machine(now, "bandwidth")


def other_machine(now: Now, what: str) -> Change:
    own, setup = now.setup.accelerator, now.setup
    found = with_more(own, what, setup.model, setup.plan)
    if found is None:
        raise RefusedError(f"the catalogue has no {own.vendor} accelerator with more")
    if what == "bandwidth" and found == with_more(own, "flops", setup.model, setup.plan):
        raise RefusedError(f"{found.title} is the next, and has more of both")
    flops = as_many(found.peak_flops / own.peak_flops)
    bandwidth = as_many(found.bandwidth / own.bandwidth)
    title = f"{found.title}: {flops} FLOP/s, {bandwidth} bandwidth"
    return Change(replace(now.setup, accelerator=found), now.load, title)


def as_many(ratio: float) -> str:
    return "the same" if 0.97 < ratio < 1.03 else f"{ratio:.2g} times the"


def shorter_prompt(now: Now) -> Change:
    own = replace(now.load, prompt_share=now.load.prompt_share / 2)
    return Change(now.setup, own, other_kernels=False)


def shorter_output(now: Now) -> Change:
    if now.load.output_tokens < 2:
        raise RefusedError("answers have one token")
    own = replace(now.load, output_share=now.load.output_share / 2)
    return Change(now.setup, own, other_kernels=False)


CHANGES: Mapping[str, Callable[[Now], Change]] = {
    "prefix-cache": prefix_cache,
    "fp8": fp8,
    "fp8-arithmetic": fp8_arithmetic,
    "prefill-kernels": prefill_kernels,
    "int8-weights": int8_weights,
    "int4-weights": int4_weights,
    "kv-fp8": kv_fp8,
    "kv-int8": kv_int8,
    "speculation": speculation,
    "larger-batch": larger_batch,
    "smaller-batch": smaller_batch,
    "larger-chunk": larger_chunk,
    "smaller-chunk": smaller_chunk,
    "prefill-first": prefill_first,
    "decode-first": decode_first,
    "decode-kernels": decode_kernels,
    "more-tp": more_tp,
    "more-pp": more_pp,
    "disaggregation": disaggregation,
    "more-flops": more_flops,
    "more-bandwidth": more_bandwidth,
    "shorter-prompt": shorter_prompt,
    "shorter-output": shorter_output,
}
