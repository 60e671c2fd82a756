"""No simulated run beats a bound: on random loads, layouts and options."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_questions import load, question

from twophase.plan.bounds import bound_of, decode_floor_s, largest, prompt_floor_s, tables_of
from twophase.plan.candidate import Candidate, Kind, Layout
from twophase.plan.demand import demand_of, shared_tokens
from twophase.plan.setups import Setups
from twophase.plan.slo import Slo, kept_by
from twophase.plan.trial import simulate_candidate
from twophase.simulate.books import FIRST_TOKEN_S
from twophase.workload.workload import Streams, Workload


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rate=st.floats(2, 200),
    prompt=st.sampled_from(["64", "lognormal:400,1.0", "uniform:1,4000"]),
    output=st.sampled_from(["1", "lognormal:80,1.0", "uniform:1,300"]),
    tokens=st.sampled_from([64, 512, 2048]),
    sequences=st.sampled_from([4, 64]),
    replicas=st.integers(1, 3),
    stages=st.sampled_from([1, 1, 2]),
    split=st.booleans(),
    attainment=st.sampled_from([0.5, 0.9, 1.0]),
    slack=st.floats(1.0, 1.5),
)
def test_no_run_beats_its_bounds(
    rate: float,
    prompt: str,
    output: str,
    tokens: int,
    sequences: int,
    replicas: int,
    stages: int,
    split: bool,
    attainment: float,
    slack: float,
) -> None:
    workload = load(rate, prompt, output, requests=60)
    kind = Kind(Layout("h100-sxm", "", "bf16", 1, stages, 1), tokens, sequences)
    own = Candidate(kind, replicas, kind, 1) if split else Candidate(kind, replicas)
    setups = Setups(question(workload=workload, slo=Slo(1.0, 1.0)))
    run = simulate_candidate(setups, own)
    assert len(run.finished) == len(workload)
    # the tightest limits that this run keeps, loosened a little: bounds must let it live
    measured = kept_by(run, Slo(1.0, 1.0, attainment=attainment))
    slo = Slo(measured.ttft_s * slack, max(measured.tpot_s, 1e-6) * slack, attainment=attainment)
    demand = demand_of(workload, slo, True)
    pool = setups.pools(kind, 1, "both")
    at = tables_of(pool.estimate.times, pool.limits.budget, pool.limits.max_sequences)
    ttft = run.records.moments[:, FIRST_TOKEN_S] - run.arrival_s
    assert (ttft >= prompt_floor_s(at, pool.limits, demand)).all()
    later = workload.output_tokens > 1
    took = run.records.moments[:, 2] - run.records.moments[:, FIRST_TOKEN_S]
    tpot = took[later] / (workload.output_tokens[later] - 1)
    assert (tpot >= decode_floor_s(at, demand)[later]).all()
    if not kept_by(run, slo).meets(slo, len(workload)):
        return  # both quantiles are kept, by different requests
    for role, count in (("prefill", 1), ("decode", replicas)) if split else (("both", replicas),):
        found = bound_of(at, pool.limits, demand, slo, role)  # type: ignore[arg-type]
        assert found.engines <= count * stages
        assert found.both_share >= attainment - 1e-9


def test_bounds_are_of_use() -> None:
    """Most of the work that a load needs at the least is asked for."""
    workload = load(300.0, "1000", "100", requests=20_000)
    setups = Setups(question(workload=workload, slo=Slo(1.0, 0.05)))
    kind = Kind(Layout("h100-sxm", "", "bf16", 1, 1, 1), 2048, 64)
    pool = setups.pools(kind, 1, "both")
    at = tables_of(pool.estimate.times, pool.limits.budget, 64)
    demand = demand_of(workload, setups.question.slo, True)
    found = bound_of(at, pool.limits, demand, setups.question.slo, "both")
    rows_s = pool.estimate.times.rows_s[1:2049]
    busy = 300.0 * 1099 * float((rows_s / np.arange(1, 2049)).min())  # of a second, all rows at their best
    assert busy > 1.5
    assert found.engines > 0.8 * busy


def test_what_a_cache_may_hold_is_no_work() -> None:
    prefix = Streams(np.zeros(3, np.int64), 160, np.full(3, -1))
    own = Workload(np.arange(3.0), np.array([200, 300, 170]), np.array([5, 5, 5]), prefix)
    assert shared_tokens(own).tolist() == [160, 160, 160]
    demand = demand_of(own, Slo(1.0, 0.1), True)
    assert demand.own.tolist() == [40, 140, 10]
    assert demand_of(own, Slo(1.0, 0.1), False).own.tolist() == [200, 300, 170]
    assert demand.deadline_s.tolist() == pytest.approx([1.4, 2.4, 3.4])
    assert demand.prompt_deadline_s.tolist() == [1.0, 2.0, 3.0]


def test_the_largest() -> None:
    values = np.array([3.0, 1.0, 2.0])
    assert [largest(values, count) for count in (0, 1, 2, 3, 9)] == [0.0, 3.0, 5.0, 6.0, 6.0]
