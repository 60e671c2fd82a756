"""The winner is that of simulating everything, by `simulate` itself."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from plan_questions import SMALL, load, nothing, question

from twophase.plan.answer import changed
from twophase.plan.candidate import Candidate, Kind, Layout, usd_per_hour
from twophase.plan.ledger import Ledger
from twophase.plan.question import Question
from twophase.plan.search import cheapest, look
from twophase.plan.setups import Setups
from twophase.plan.slo import Slo
from twophase.plan.space import Space, decodes, prefills
from twophase.plan.trial import try_candidate
from twophase.plan.workers import local
from twophase.simulate.outcome import Run
from twophase.simulate.pools import Pool, Sizes, pool_of
from twophase.simulate.presets import PRESETS
from twophase.simulate.run import links_between, simulate
from twophase.simulate.running import Wire, run_pools
from twophase.simulate.workload_arrays import Role


def every_kind(own: Question) -> list[Kind]:
    space = own.space
    return [
        Kind(Layout(gpu, "", "bf16", tp, pp, 1), tokens, sequences)
        for gpu, tp, pp, tokens, sequences in product(
            space.gpus, space.tp, space.pp, space.max_tokens, space.max_sequences
        )
    ]


def everything(own: Question) -> list[Candidate]:
    """The whole grid of so many devices, written down by loops."""
    found, most = [], own.max_gpus or 0
    every = every_kind(own)
    for kind, replicas in product(every, range(1, most + 1)):
        found.append(Candidate(kind, replicas))
    for first, second in product(every, every):
        if first.layout.gpu != second.layout.gpu or not prefills(own.space, first):
            continue
        if not decodes(own.space, second):
            continue
        for p, d in product(range(1, most + 1), repeat=2):
            found.append(Candidate(second, d, first, p))
    return [each for each in found if each.devices <= most]


def run_of(own: Question, each: Candidate) -> Run:
    """By the simulator's own calls, which set each pool up themselves."""
    if each.prefill is None:
        return simulate(
            own.models[""],
            own.accelerators[each.gpu],
            own.workload,
            "vllm",
            plan=each.serving.layout.plan,
            sizes=sizes(own, each.serving),
            replicas=each.replicas,
        )
    first = pool(own, each.prefill, "prefill", each.prefill_replicas)
    link = links_between(own.accelerators[each.gpu], each.serving.layout.plan)
    second = pool(own, each.serving, "decode", each.replicas)
    return run_pools([first, second], own.workload, wire=Wire(link, True))


def pool(own: Question, kind: Kind, role: Role, count: int) -> Pool:
    return pool_of(
        own.models[""],
        own.accelerators[kind.layout.gpu],
        own.workload,
        PRESETS["vllm"],
        policy="vllm",
        plan=kind.layout.plan,
        sizes=sizes(own, kind),
        role=role,
        count=count,
    )


def sizes(own: Question, kind: Kind) -> Sizes:
    return Sizes(
        max_tokens=kind.max_tokens, max_sequences=kind.max_sequences, context_length=own.context_length
    )


def meets(own: Question, run: Run) -> bool:
    """Counted request by request."""
    good = 0
    for row in run.finished.tolist():
        first, last = run.records.moments[row, 1], run.records.moments[row, 2]
        tokens, arrival = run.workload.output_tokens[row], run.arrival_s[row]
        tpot = (last - first) / (tokens - 1) if tokens > 1 else 0.0
        good += (
            first - arrival <= own.slo.ttft_s and tpot <= own.slo.tpot_s and last - arrival <= own.slo.e2e_s
        )
    allowed = int((1 - own.slo.attainment) * len(run.workload) + 1e-9)
    return len(run.workload) - good <= allowed and run.growth is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "slo", "space"),
    [
        (60.0, Slo(ttft_s=0.3, tpot_s=0.02), SMALL),
        (25.0, Slo(ttft_s=0.06, tpot_s=0.02, attainment=0.95), SMALL),
        (60.0, Slo(ttft_s=1.0, tpot_s=0.06), replace(SMALL, gpus=("a100-80gb",), tp=(1,), pp=(1, 2))),
    ],
)
def test_the_winner_is_that_of_simulating_everything(rate: float, slo: Slo, space: Space) -> None:
    own = question(workload=load(rate), slo=slo, space=space)
    costs: dict[float, list[Candidate]] = {}
    for each in everything(own):
        costs.setdefault(usd_per_hour(each, own.prices), []).append(each)
    least = next(
        (cost for cost in sorted(costs) if any(meets(own, run_of(own, each)) for each in costs[cost])), None
    )
    with local(own, 1) as work:
        ledger = Ledger(work)
        looked = look(own, work, nothing)
        best = cheapest(own, looked, ledger, nothing)
    assert looked.considered == len(everything(own))
    assert (best.usd_per_hour if best else None) == least
    assert best is not None
    run = run_of(own, best.candidate)
    assert meets(own, run)
    assert best.trial.kept.share >= own.slo.attainment
    assert best.trial.ttft_s[0] == pytest.approx(np.percentile(run.ttft_s, 50))


def test_the_same_with_more_processes() -> None:
    own = question(space=replace(SMALL, gpus=("h100-sxm",), tp=(1,)))
    found = []
    for processes in (1, 2):
        with local(own, processes) as work:
            looked = look(own, work, nothing)
            found.append((looked, cheapest(own, looked, Ledger(work), nothing)))
    assert found[0] == found[1]


def test_fewest_devices_are_an_aim_of_their_own() -> None:
    """One dear device against two cheap ones (ADV-02: the objective must be explicit)."""
    own = question(
        workload=load(30.0),
        prices={"h100-sxm": 9.0, "a100-80gb": 1.0},
        slo=Slo(ttft_s=0.4, tpot_s=0.018),
    )
    with local(own, 1) as work:
        ledger = Ledger(work)
        looked = look(own, work, nothing)
        best = cheapest(own, looked, ledger, nothing)
        assert best is not None
        fewest = cheapest(own, looked, ledger, nothing, by_devices=True, up_to=best.candidate.devices)
    assert fewest is not None
    assert best.candidate.gpu == "a100-80gb"
    assert fewest.candidate.devices <= best.candidate.devices
    assert fewest.usd_per_hour >= best.usd_per_hour


def test_longer_requests_than_the_load_asked_are_served_too() -> None:
    """All are of one length: a fifth more is longer than any, and still within the engines' context."""
    own = question(workload=load(rate=1.0, prompt="500", output="20", requests=40))
    each = Candidate(Kind(Layout("h100-sxm", "", "bf16", 1, 1, 1), 2048, 64), 1)
    longer = changed(own.workload, "lengths", 1.2, own.context_length)
    assert (longer.prompt_tokens == 600).all() and (longer.output_tokens == 24).all()
    trial = try_candidate(Setups(own), each, longer)
    assert (trial.finished, trial.kept.share) == (40, 1.0)
