"""The first look at every kind of replica: does it fit, and which bounds rule it out, or ask for how many."""

import math
from dataclasses import dataclass

from twophase.plan.bounds import Bound, Tables, bound_of, tables_of
from twophase.plan.candidate import Kind, Layout
from twophase.plan.demand import Demand
from twophase.plan.question import Question
from twophase.plan.setups import Setups
from twophase.plan.slo import Slo
from twophase.plan.space import decodes, kinds, prefills
from twophase.simulate.workload_arrays import Role


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one kind in each role: the replicas without which it can't be, or why none are enough."""

    kind: Kind
    least: dict[Role, int]
    lost: dict[Role, str]  # memory, ttft, tpot, slo


def judge_layout(setups: Setups, at: Layout, demand: Demand) -> list[Judged]:
    own = setups.question
    return [judge(setups, kind, demand, own) for kind in kinds(own.space, at)]


def judge(setups: Setups, kind: Kind, demand: Demand, own: Question) -> Judged:
    roles = roles_of(own, kind)
    pool = setups.pool(kind)
    if pool is None:
        return Judged(kind, {}, dict.fromkeys(roles, "memory"))
    least: dict[Role, int] = {}
    lost: dict[Role, str] = {}
    at: Tables = tables_of(pool.estimate.times, pool.limits.budget, pool.limits.max_sequences)
    for role in roles:
        found = bound_of(at, pool.limits, demand, own.slo, role)
        why = broken_by(found, own.slo, len(demand.prompt))
        if why:
            lost[role] = why
        else:
            least[role] = max(1, math.ceil(found.engines / kind.layout.pp))
    return Judged(kind, least, lost)


def roles_of(own: Question, kind: Kind) -> tuple[Role, ...]:
    found: list[Role] = ["both"] if own.space.aggregated else []
    if prefills(own.space, kind):
        found.append("prefill")
    if decodes(own.space, kind):
        found.append("decode")
    return tuple(found)


def broken_by(found: Bound, slo: Slo, requests: int) -> str:
    """The limit that too many requests miss at best; empty where none is."""
    allowed = slo.misses_allowed(requests)
    for name, share in (("ttft", found.ttft_share), ("tpot", found.tpot_share), ("slo", found.both_share)):
        if round((1 - share) * requests) > allowed:
            return name
    return "" if math.isfinite(found.engines) else "tpot"
