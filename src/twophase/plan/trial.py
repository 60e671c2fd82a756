"""One candidate, simulated: what a worker process does, and the few numbers that it gives back."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twophase.plan.candidate import Candidate
from twophase.plan.setups import Setups
from twophase.plan.slo import Kept, Slo, kept_by, lost_by
from twophase.simulate.outcome import Run
from twophase.simulate.pools import Pool, long_enough
from twophase.simulate.run import links_between
from twophase.simulate.running import Wire, run_pools
from twophase.workload.workload import Workload

EARLY, LEAST_EARLY, MOST_EARLY = 2.5, 0.1, 0.5  # of the requests, by how many may miss
WORTHWHILE = 200  # requests


@dataclass(frozen=True, slots=True)
class Trial:
    kept: Kept
    ttft_s: tuple[float, float]  # p50, p99 of finished requests
    tpot_s: tuple[float, float]
    busy_share: float  # mean of the replicas
    output_tokens_per_s: float
    finished: int


def simulate_candidate(
    setups: Setups, own: Candidate, workload: Workload | None = None, until_s: float = float("inf")
) -> Run:
    """`workload`: instead of the question's, for its sensitivity."""
    asked = setups.question
    pools, wire = pools_of(setups, own)
    load = workload or asked.workload
    return run_pools(
        long_enough(pools, load),
        load,
        router=asked.router,
        wire=wire,
        seed=asked.seed,
        max_time_s=until_s,
    )


def pools_of(setups: Setups, own: Candidate) -> tuple[list[Pool], Wire | None]:
    if own.prefill is None:
        return [setups.pools(own.serving, own.replicas, "both")], None
    first = setups.pools(own.prefill, own.prefill_replicas, "prefill")
    asked = setups.question
    link = asked.link or links_between(asked.accelerators[own.gpu], own.serving.layout.plan)
    return [first, setups.pools(own.serving, own.replicas, "decode")], Wire(link, True)


def try_candidate(setups: Setups, own: Candidate, workload: Workload | None = None) -> Trial:
    """An early part first: where more have missed by then than may, the rest need not be simulated."""
    slo, asked = setups.question.slo, workload or setups.question.workload
    early = early_s(asked, slo)
    if early is not None:
        run = simulate_candidate(setups, own, workload, early)
        lost = lost_by(run, slo, early)
        if lost is not None:
            return _trial(run, lost)
    run = simulate_candidate(setups, own, workload)
    return _trial(run, kept_by(run, slo))


def early_s(workload: Workload, slo: Slo) -> float | None:
    """When so many have come that a queue that grows shows; None where it's not worth while."""
    share = min(max(EARLY * (1 - slo.attainment), LEAST_EARLY), MOST_EARLY)
    if workload.follows is not None or len(workload) < WORTHWHILE:
        return None
    return float(workload.arrival_s[int(share * len(workload))])


def _trial(run: Run, kept: Kept) -> Trial:
    return Trial(
        kept=kept,
        ttft_s=_middle_and_tail(run.ttft_s),
        tpot_s=_middle_and_tail(run.tpot_s),
        busy_share=float(np.mean([each.busy_s for each in run.replicas]) / run.ended_s)
        if run.ended_s
        else 0.0,
        output_tokens_per_s=run.output_tokens_per_s,
        finished=len(run.finished),
    )


def _middle_and_tail(values: Any) -> tuple[float, float]:
    if not len(values):
        return float("inf"), float("inf")
    middle, tail = np.percentile(values, (50, 99))
    return float(middle), float(tail)


def trial_as_dict(own: Trial) -> dict[str, Any]:
    return asdict(own)


def trial_from(content: dict[str, Any]) -> Trial:
    """TypeError, ValueError or KeyError where it is none: others may have written in a run folder."""
    rest = {**content, "kept": Kept(**content["kept"])}
    for name in ("ttft_s", "tpot_s"):
        middle, tail = content[name]
        rest[name] = (middle, tail)
    own = Trial(**rest)
    switches, kept = (own.kept.grows, own.kept.cut), own.kept
    seconds = (kept.ttft_s, kept.tpot_s, kept.e2e_s, *own.ttft_s, *own.tpot_s)
    for number in (kept.share, *seconds, own.busy_share, own.output_tokens_per_s, own.finished):
        if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
            raise ValueError(f"{number!r} is no figure")
    if not all(isinstance(each, bool) for each in switches):
        raise TypeError(f"{switches} are no switches")
    return own
