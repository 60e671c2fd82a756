"""One candidate, simulated: what a worker process does, and the few numbers that it gives back."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twophase.errors import InputError
from twophase.plan.candidate import Candidate
from twophase.plan.setups import Setups
from twophase.plan.slo import Kept, kept_by
from twophase.simulate.outcome import Run
from twophase.simulate.pools import Pool
from twophase.simulate.run import links_between
from twophase.simulate.running import Wire, run_pools
from twophase.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Trial:
    kept: Kept
    ttft_s: tuple[float, float]  # p50, p99 of finished requests
    tpot_s: tuple[float, float]
    busy_share: float  # mean of the replicas
    output_tokens_per_s: float
    finished: int


def simulate_candidate(setups: Setups, own: Candidate, workload: Workload | None = None) -> Run:
    """`workload`: instead of the question's, for its sensitivity."""
    asked = setups.question
    pools, wire = pools_of(setups, own)
    return run_pools(
        pools, workload or asked.workload, router=asked.router, wire=wire, seed=asked.seed
    )


def pools_of(setups: Setups, own: Candidate) -> tuple[list[Pool], Wire | None]:
    if own.prefill is None:
        return [setups.pools(own.serving, own.replicas, "both")], None
    first = setups.pools(own.prefill, own.prefill_replicas, "prefill")
    asked = setups.question
    link = asked.link or links_between(asked.accelerators[own.gpu], own.serving.layout.plan)
    return [first, setups.pools(own.serving, own.replicas, "decode")], Wire(link, True)


def try_candidate(setups: Setups, own: Candidate, workload: Workload | None = None) -> Trial:
    run = simulate_candidate(setups, own, workload)
    return Trial(
        kept=kept_by(run, setups.question.slo),
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
    """InputError where it is none."""
    try:
        rest = {**content, "kept": Kept(**content["kept"])}
        rest["ttft_s"], rest["tpot_s"] = tuple(content["ttft_s"]), tuple(content["tpot_s"])
        return Trial(**rest)
    except (KeyError, TypeError):
        raise InputError("the run folder holds a trial that is none") from None
