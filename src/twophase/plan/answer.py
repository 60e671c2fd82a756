"""A plan: what to buy, what else was near, why it lost, and how far the answer can be trusted to hold."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twophase.calibration.estimate import Estimate
from twophase.plan.candidate import Candidate, usd_per_hour
from twophase.plan.ledger import Ledger
from twophase.plan.predicting import promising
from twophase.plan.question import Question
from twophase.plan.search import Best, Looked, Show, cheapest, look, rank
from twophase.plan.setups import Setups
from twophase.plan.trial import Trial
from twophase.plan.workers import Try, Work
from twophase.workload.workload import Workload

DEARER, TRIALS = 1.5, 64  # rivals: up to so many times the winner's cost, after so many simulations
MORE_TRIALS = 256  # for one whose pass times aren't extrapolated, where no rival is
FRONT = 24  # further candidates that are simulated for the front
CHANGES = (("rate", 0.8), ("rate", 1.2), ("lengths", 0.8), ("lengths", 1.2))
HALVINGS = 5  # of the range of rates
MORE = 8  # replicas that are added at most to bear a change


@dataclass(frozen=True, slots=True)
class Rival:
    """The best of another accelerator, or of the other way to split; None: none found that keeps the SLO."""

    gpu: str
    split: bool
    best: Best | None


@dataclass(frozen=True, slots=True)
class Near:
    """At most as dear as the winner, and not good enough."""

    candidate: Candidate
    trial: Trial
    usd_per_hour: float


@dataclass(frozen=True, slots=True)
class Change:
    """The winner under another load; `needed`: the replicas of it that bear it, None: more than looked at."""

    what: str
    factor: float
    trial: Trial
    meets: bool
    needed: Candidate | None


@dataclass(frozen=True, slots=True)
class Answer:
    question: Question
    looked: Looked
    best: Best | None
    measured: Best | None  # the cheapest whose pass times aren't extrapolated
    fewest: Best | None  # devices
    densest: tuple[Best, float] | None  # requests/s that keep the SLO, a device
    rivals: tuple[Rival, ...]
    near: tuple[Near, ...]  # nearest first
    front: tuple[Best, ...]  # cheapest first: none dominates another in cost and E2E
    changes: tuple[Change, ...]
    simulated: int
    clocks: Mapping[str, Estimate]  # pass times, of one layout of each accelerator that bounds left

    def extrapolated(self, own: Candidate) -> bool:
        return self.clocks[own.gpu].extrapolated


def answer(question: Question, work: Work, ledger: Ledger, show: Show) -> Answer:
    looked = look(question, work, show)
    best = cheapest(question, looked, ledger, show)
    measured = fewest = best
    clocks = clocks_of(question, looked)
    rivals: tuple[Rival, ...] = ()
    densest: tuple[Best, float] | None = None
    changes: tuple[Change, ...] = ()
    if best is not None:
        devices = float(best.candidate.devices)
        fewest = cheapest(question, looked, ledger, show, by_devices=True, up_to=devices) or best
        rivals = tuple(rivals_of(question, looked, ledger, best, show))
        measured = measured_of(question, looked, ledger, best, rivals, clocks, show)
        ledger.tried(promising(question, looked, work, best, FRONT))
        show("denser and other loads", 0.9)
        densest = densest_of(question, work, [best, fewest, *(each.best for each in rivals if each.best)])
        changes = tuple(change(question, work, best, what, factor) for what, factor in CHANGES)
    return Answer(
        question=question,
        looked=looked,
        best=best,
        measured=measured,
        fewest=fewest,
        densest=densest,
        rivals=rivals,
        near=tuple(near(question, ledger, best)),
        front=tuple(front(question, ledger)),
        changes=changes,
        simulated=len(ledger.trials),
        clocks=clocks,
    )


def clocks_of(question: Question, looked: Looked) -> dict[str, Estimate]:
    """What pass times are made of depends on the accelerator alone: any of its layouts tells it."""
    setups = Setups(question)
    return {
        gpu: setups.estimate(at)
        for gpu, at in {each.serving.layout.gpu: each.serving.layout for each in looked.configs}.items()
    }


def rivals_of(question: Question, looked: Looked, ledger: Ledger, best: Best, show: Show) -> Iterable[Rival]:
    """Of each accelerator, whole and split by phase, the cheapest that keeps the SLO."""
    for gpu in question.space.gpus:
        for split in (False, True):
            mine = [
                each
                for each in looked.configs
                if each.serving.layout.gpu == gpu and (each.prefill is not None) == split
            ]
            if not mine:
                continue
            found = cheapest(
                question,
                looked,
                ledger,
                show,
                configs=mine,
                up_to=DEARER * best.usd_per_hour,
                most_trials=TRIALS,
            )
            yield Rival(gpu, split, found)


def measured_of(
    question: Question,
    looked: Looked,
    ledger: Ledger,
    best: Best,
    rivals: Iterable[Rival],
    clocks: Mapping[str, Estimate],
    show: Show,
) -> Best | None:
    """The winner where its own pass times were measured; else a rival, else one dearer than those may be."""
    known = {gpu for gpu, clock in clocks.items() if not clock.extrapolated}
    found = [each.best for each in rivals if each.best is not None and each.gpu in known]
    if best.candidate.gpu in known:
        return best
    if found:
        return min(found, key=lambda own: rank(question, own))
    left = [each for each in looked.configs if each.serving.layout.gpu in known]
    return cheapest(question, looked, ledger, show, configs=left, most_trials=MORE_TRIALS)


def near(question: Question, ledger: Ledger, best: Best | None) -> list[Near]:
    """One of each kind of replicas: that with the largest share of requests that keep the SLO."""
    found: dict[tuple[object, object], Near] = {}
    for each, trial in ledger.trials.items():
        cost = usd_per_hour(each, question.prices)
        if trial.kept.meets(question.slo, len(question.workload)) or (
            best is not None and cost > best.usd_per_hour
        ):
            continue
        at = (each.serving.layout, each.prefill and each.prefill.layout)
        if at not in found or closeness(trial) > closeness(found[at].trial):
            found[at] = Near(each, trial, cost)
    return sorted(found.values(), key=lambda own: (closeness(own.trial), -own.usd_per_hour), reverse=True)


def closeness(own: Trial) -> tuple[bool, float]:
    """Runs that were cut off were hopeless."""
    return (not own.kept.cut, own.kept.share)


def front(question: Question, ledger: Ledger) -> list[Best]:
    """By cost and E2E latency, of those that were simulated and keep the SLO."""
    every = [
        Best(each, trial, usd_per_hour(each, question.prices))
        for each, trial in ledger.trials.items()
        if trial.kept.meets(question.slo, len(question.workload))
    ]
    found: list[Best] = []
    for each in sorted(every, key=lambda own: (own.usd_per_hour, own.trial.kept.e2e_s)):
        if not found or each.trial.kept.e2e_s < found[-1].trial.kept.e2e_s:
            found.append(each)
    return found


def densest_of(question: Question, work: Work, own: Sequence[Best]) -> tuple[Best, float] | None:
    """Of these, the one that keeps the SLO at the highest rate a device, its rate found by halving."""
    every = list({each.candidate: each for each in own}.values())
    low, high = np.ones(len(every)), np.full(len(every), 4.0)
    if question.workload.follows is not None or question.workload.rate == 0:
        return None
    for _ in range(HALVINGS):
        middle = np.sqrt(low * high)
        asked = [
            Try(each.candidate, question.workload.faster(float(at)))
            for each, at in zip(every, middle, strict=True)
        ]
        for i, trial in enumerate(work(asked)):
            held = trial.kept.meets(question.slo, len(question.workload))
            low[i], high[i] = (middle[i], high[i]) if held else (low[i], middle[i])
    rates = [
        question.workload.rate * at / each.candidate.devices for each, at in zip(every, low, strict=True)
    ]
    top = int(np.argmax(rates))
    return every[top], float(rates[top])


def change(question: Question, work: Work, best: Best, what: str, factor: float) -> Change:
    load = changed(question.workload, what, factor, question.context_length)
    trial = next(iter(work([Try(best.candidate, load)])))
    meets = trial.kept.meets(question.slo, len(load))
    needed: Candidate | None = best.candidate if meets else None
    if not meets:
        more = [grown(best.candidate, extra) for extra in range(1, MORE + 1)]
        found = [
            each.kept.meets(question.slo, len(load)) for each in work([Try(each, load) for each in more])
        ]
        needed = more[found.index(True)] if True in found else None
    return Change(what, factor, trial, meets, needed)


def grown(own: Candidate, extra: int) -> Candidate:
    """Split ones grow in both pools, as near to their proportion as can be."""
    if own.prefill is None:
        return replace(own, replicas=own.replicas + extra)
    whole = own.replicas + own.prefill_replicas
    first = round(own.prefill_replicas * (whole + extra) / whole)
    return replace(own, prefill_replicas=first, replicas=whole + extra - first)


def changed(own: Workload, what: str, factor: float, longest: int) -> Workload:
    """The same requests, more often or longer; none longer than the engines' context. Whose lengths change
    have nothing in common any more."""
    if what == "rate":
        return own.faster(factor)
    prompt = np.maximum(np.rint(own.prompt_tokens * factor), 1).astype(np.int64)
    output = np.maximum(np.rint(own.output_tokens * factor), 1).astype(np.int64)
    prompt = np.clip(prompt, 1, max(1, longest - 1))
    return replace(
        own,
        prompt_tokens=prompt,
        output_tokens=np.minimum(output, np.maximum(longest - prompt, 1)),
        content=None,
    )
