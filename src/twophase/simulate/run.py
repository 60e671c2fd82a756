"""A simulation from end to end:

from twophase.simulate.run import simulate
from twophase.workload.traces import read_trace

run = simulate("llama-3.1-8b", "h100-sxm", read_trace(Path("trace.csv")), "vllm")
print(np.percentile(run.ttft_s, 99), run.output_tokens_per_s)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from twophase.calibration.calibrated import Calibration
from twophase.calibration.estimate import Provenance
from twophase.cost.parallel import ALONE, Plan
from twophase.errors import InputError, nearest
from twophase.hardware.accelerator import Accelerator, Link
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import Model, load_model
from twophase.model.served import served
from twophase.scheduler.policy import POLICIES, Policy
from twophase.simulate.clients import by_clients, told_apart
from twophase.simulate.cluster_books import ROUTERS
from twophase.simulate.groups import Group, require_few, require_roles
from twophase.simulate.outcome import Run
from twophase.simulate.pools import Pool, Sizes, pool_of
from twophase.simulate.presets import PRESETS, Preset, preset_named
from twophase.simulate.running import Show, Wire, run_own, run_pools
from twophase.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Prompts are computed by some replicas, and outputs by others, to which the KV cache is sent."""

    prefill: int
    decode: int
    link: Link | None = None  # of each replica; None: the accelerator's between nodes, one a device
    overlap: bool = True  # layers are sent as they are computed
    prefill_plan: Plan | None = None  # None: the same as the decode replicas'


def simulate(
    model: str | Model,
    accelerator: str | Accelerator | Sequence[Group],
    workload: Workload,
    policy: str | Policy = "vllm",
    *,
    clients: int | None = None,
    preset: str | None = None,
    weights: str | None = None,
    plan: Plan = ALONE,
    kv: str = "bf16",
    sizes: Sizes | None = None,
    replicas: int = 1,
    router: str = "round-robin",
    split: Split | None = None,
    wire: Wire | None = None,
    drafts: int = 0,
    acceptance: float = 0.0,
    provenance: Provenance | None = None,
    calibration: Calibration | None = None,
    seed: int = 0,
    max_time_s: float = float("inf"),
    show: Show | None = None,
) -> Run:
    """Serve the workload in simulated time. The same arguments give the same run on any machine.

    accelerator: where replicas are not all alike, their groups, in place of `plan`, `replicas` and `split`;
    the KV cache goes over `wire` from those that compute prompts (None: the slowest's between nodes).
    policy: a preset's name (vllm, sglang, ours, static, prefill-first); or a policy's (shortest-first ...)
    for the engine of `preset`; or a function of your own, `policy(state) -> None` as those in
    twophase.scheduler.policy, which runs on one replica, in plain Python. `drafts` tokens are verified in
    each decode pass, each accepted with the chance `acceptance` where those before it were.
    clients: so many ask for the workload's requests in turn, at no times of their own; they begin spread over
    the time that a first few requests take together, as those of `bench` do.
    provenance: of pass times; None: what came nearest to measured serving on such machines (`best_of`).
    InputError where the model doesn't fit, or a name is unknown.
    """
    own = served(load_model(model), weights) if isinstance(model, str) else model
    groups = groups_of(accelerator, plan, replicas, split)
    require_few(groups)
    chosen = preset_of(policy, preset)
    if router not in ROUTERS:
        raise InputError(f"no router {router!r}; there are {', '.join(ROUTERS)}{nearest(router, ROUTERS)}")

    def pool(group: Group) -> Pool:
        return pool_of(
            own,
            group.accelerator,
            workload,
            chosen[0],
            policy=chosen[1],
            plan=group.plan,
            kv=kv,
            sizes=sizes,
            role=group.role,
            count=group.count,
            drafts=drafts,
            provenance=provenance,
            calibration=calibration,
        )

    if not isinstance(policy, str):
        own_pool = pool(groups[0])
        if (
            len(groups) > 1
            or own_pool.count > 1
            or workload.follows is not None
            or clients is not None
            or max_time_s < float("inf")
        ):
            raise InputError(
                "a policy of your own runs on one replica, without stages, turns and clients, to the end"
            )
        return run_own(own_pool, workload, policy, drafts=drafts, acceptance=acceptance, seed=seed)
    if split is not None:
        wire = Wire(split.link or link_between(groups[1:]), split.overlap)
    elif groups[0].role != "both":
        wire = wire or Wire(link_between(groups), overlap=True)
    elif wire is not None:
        raise InputError("a wire lies between replicas with the roles prefill and decode: give them")
    serve = partial(
        run_pools,
        [pool(each) for each in groups],
        router=router,
        wire=wire,
        drafts=drafts,
        acceptance=acceptance,
        seed=seed,
    )
    if clients is None:
        return serve(workload, max_time_s=max_time_s, show=show)
    load = by_clients(serve, workload, clients)
    return told_apart(serve(load, max_time_s=max_time_s, show=show), clients)


def preset_of(policy: str | Policy, preset: str | None) -> tuple[Preset, str]:
    """The engine, and the name of its policy."""
    if not isinstance(policy, str):
        return preset_named(preset or "vllm"), getattr(policy, "__name__", "own")
    if preset is None and policy in PRESETS:
        return PRESETS[policy], PRESETS[policy].policy
    engine = preset_named("vllm" if preset is None else preset)
    if policy not in POLICIES and policy not in PRESETS:
        known = list(dict.fromkeys([*PRESETS, *POLICIES]))
        raise InputError(f"no policy {policy!r}; there are {', '.join(known)}{nearest(policy, known)}")
    return engine, policy if policy in POLICIES else PRESETS[policy].policy


def groups_of(
    accelerator: str | Accelerator | Sequence[Group], plan: Plan, replicas: int, split: Split | None
) -> Sequence[Group]:
    """Those that compute prompts first, where they are apart."""
    if not isinstance(accelerator, str | Accelerator):
        if plan != ALONE or replicas != 1 or split is not None:
            raise InputError("groups have their own plans, counts and roles: leave out plan, replicas, split")
        require_roles(accelerator)
        return sorted(accelerator, key=lambda group: group.role == "decode")
    device = load_accelerator(accelerator) if isinstance(accelerator, str) else accelerator
    if split is None:
        return [Group(device, replicas, plan)]
    first = Group(device, split.prefill, split.prefill_plan or plan, "prefill")
    return [first, Group(device, split.decode, plan, "decode")]


def links_between(accelerator: Accelerator, plan: Plan) -> Link:
    """Of a replica: its devices send side by side, each over its own link between nodes."""
    devices = plan.tp * plan.pp
    return Link(accelerator.inter.bandwidth * devices, accelerator.inter.latency_s)


def link_between(groups: Sequence[Group]) -> Link:
    """Of the slowest of them."""
    return min((links_between(each.accelerator, each.plan) for each in groups), key=lambda own: own.bandwidth)
