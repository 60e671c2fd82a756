"""What a run is to do, as the user asked for it, and the workload that follows from it."""

import os
from dataclasses import dataclass, field, replace

from twophase.errors import InputError
from twophase.meter.calibration import Calibration
from twophase.meter.capabilities import Asked, Server
from twophase.meter.goodput import Limit
from twophase.meter.level import Level, Limits
from twophase.meter.prompts import Listed, Recipe, Synthetic, Talk
from twophase.meter.replayed import Replayed
from twophase.workload.arrivals import Arrivals
from twophase.workload.closed import MOST_WARMUPS
from twophase.workload.lengths import Lengths
from twophase.workload.workload import Workload

ROUNDS = 10  # requests for each slot of a closed loop, where nothing else says how many
LEAST_REQUESTS = 20
LEAST_ROUNDS = 3  # of a sweep's level, whatever the user says
OPEN_REQUESTS = 100
STREAMS_A_WORKER = 512  # beyond them, or that rate, one core is not enough
REQUESTS_PER_S_A_WORKER = 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One of concurrency, arrivals and trace is the load; a sweep starts from it."""

    asked: Asked
    prompt: Lengths
    output: Lengths
    concurrency: int | None = None
    arrivals: Arrivals | None = None
    trace: Workload | None = None
    sweep: bool = False
    slo: tuple[Limit, ...] = ()
    requests: int | None = None
    duration_s: float | None = None
    dataset: tuple[Talk, ...] | None = None
    prefix_tokens: int = 0
    prefixes: int = 1
    turns: int = 1
    warmups: int | None = None
    spread_s: float | None = None  # of a closed loop's first cohort; None: over one request's time
    seed: str = ""
    limits: Limits = field(default_factory=Limits)
    workers: int | None = None
    ray: str | None = None

    @property
    def open_loop(self) -> bool:
        return self.arrivals is not None or self.trace is not None

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that is certain to be asked for; 0 where lengths are drawn."""
        if self.trace is not None or self.dataset is not None:
            return 0
        if self.prompt.kind != "fixed" or self.output.kind != "fixed":
            return 0
        return self.prefix_tokens + self.turns * round(self.prompt.first + self.output.first)


def recipe_of(plan: Plan, calibration: Calibration, seed: str) -> Recipe:
    if plan.dataset is not None:
        return Listed(plan.dataset)
    if plan.trace is not None:
        return Replayed(seed, calibration, plan.trace)
    return Synthetic(
        seed, calibration, plan.prompt, plan.output, plan.prefix_tokens, plan.prefixes, plan.turns
    )


def warm_up_of(plan: Plan, server: Server) -> Level | None:
    """Requests that are not measured, and whose prompts are none of those that are."""
    slots = plan.concurrency or 1
    number = min(slots, MOST_WARMUPS) if plan.warmups is None else plan.warmups
    if not number:
        return None
    recipe = recipe_of(replace(plan, turns=1), server.calibration, f"{plan.seed}/warm-up")
    if plan.dataset is not None:  # a prompt of its own that is measured later would be a known one
        recipe = Synthetic(f"{plan.seed}/warm-up", server.calibration, plan.prompt, plan.output)
    return Level(recipe, server.dialect, "warm-up", sessions=number, concurrency=min(slots, number))


def level_of(plan: Plan, server: Server, load: float, first: int, request_s: float) -> Level:
    """The level of so many streams at once, or of such a rate; `request_s` is how long a request may take."""
    recipe = recipe_of(plan, server.calibration, plan.seed)
    common = Level(recipe, server.dialect, first=first, turns=plan.turns, seed=f"{plan.seed}/{load:g}")
    if plan.trace is not None:
        due = tuple(plan.trace.arrival_s.tolist())
        return replace(common, point="trace", due=due, sessions=len(due), turns=1, duration_s=plan.duration_s)
    if plan.arrivals is not None:
        sessions = sessions_of(plan, OPEN_REQUESTS)
        arrivals = replace(plan.arrivals, rate=load)
        return replace(
            common, point=f"rate {load:g}/s", due=arrivals, sessions=sessions, duration_s=plan.duration_s
        )
    slots = round(load)
    least = LEAST_ROUNDS * slots if plan.sweep else 1
    spread = request_s if plan.spread_s is None else plan.spread_s
    if plan.duration_s is not None and plan.spread_s is None:
        spread = min(spread, plan.duration_s / 10)
    return replace(
        common,
        point=f"concurrency {slots}",
        concurrency=slots,
        sessions=sessions_of(plan, max(slots * ROUNDS, LEAST_REQUESTS), least),
        duration_s=plan.duration_s,
        spread_s=spread,
    )


def sessions_of(plan: Plan, usual: int, least: int = 1) -> int | None:
    """None where the duration alone decides. A sweep's level with too few would not reach its height."""
    if plan.requests is not None:
        return -(-max(plan.requests, least) // plan.turns)
    return None if plan.duration_s is not None else -(-usual // plan.turns)


def require_room(plan: Plan, server: Server) -> None:
    if server.longest is not None and plan.longest > server.longest:
        raise InputError(
            f"prompt and output of {plan.longest:,} tokens are more than the {server.longest:,} that "
            "the server takes: give smaller --prompt-tokens or --output-tokens"
        )


def workers_for(wanted: int | None, concurrency: float, rate: float) -> int:
    """As many as asked for; else as many as the load needs and the machine has cores to spare for."""
    if wanted is not None:
        return wanted
    needed = max(concurrency / STREAMS_A_WORKER, rate / REQUESTS_PER_S_A_WORKER)
    return max(min(-int(-needed // 1), (os.cpu_count() or 2) - 1), 1)
