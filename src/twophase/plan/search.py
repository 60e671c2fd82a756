"""The search: bounds cut what can't be, the rest is simulated in order of cost until nothing cheaper is left.

Nothing is cut but what a bound rules out; among candidates of the same cost the one that uses up least of
its limits wins, ties by name. So the winner is that of simulating them all.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from twophase.plan.candidate import Candidate, Kind, key_of, usd_per_hour
from twophase.plan.frontier import Config, Frontier, count_of
from twophase.plan.judging import Judged
from twophase.plan.ledger import Ledger
from twophase.plan.question import Question
from twophase.plan.space import layouts, pairs
from twophase.plan.trial import Trial
from twophase.plan.workers import Judge, Work

AT_ONCE = 32  # simulated together: the same whatever the number of processes
ROOM, LEAST_ROOM = 4, 64  # devices that are considered: times what the load needs, and at least so many

Show = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Looked:
    """What is left after bounds, and what was not."""

    configs: tuple[Config, ...]
    most_devices: int
    considered: int  # candidates with at most so many devices
    left: int
    lost: Counter[str] = field(default_factory=Counter)  # candidates cut: memory, ttft, tpot, slo, capacity


@dataclass(frozen=True, slots=True)
class Best:
    candidate: Candidate
    trial: Trial
    usd_per_hour: float


def look(question: Question, work: Work, show: Show) -> Looked:
    own = question.space
    every = layouts(own, next(iter(question.models.values())), question.accelerators)
    judged: list[Judged] = []
    for number, found in enumerate(work([Judge(each) for each in every]), 1):
        judged += found
        show(f"bounds of {number:,} layouts", number / len(every))
    return sifted(question, judged)


def sifted(question: Question, judged: list[Judged]) -> Looked:
    """All configurations, those that no bound rules out first made of them."""
    by = {each.kind: each for each in judged}
    both = [each for each in judged if "both" in each.least or "both" in each.lost]
    alone: list[tuple[Kind, Kind | None]] = [(each.kind, None) for each in both]
    split: list[tuple[Kind, Kind | None]] = [
        (decode, prefill) for prefill, decode in pairs(question.space, [each.kind for each in judged])
    ]
    configs: list[Config] = []
    dead: list[tuple[Config, str]] = []
    for serving, prefill in (*alone, *split):
        why = _lost(by, serving, prefill)
        if why:
            dead.append((Config(serving, 1, prefill, 1), why))
        elif prefill is None:
            configs.append(Config(serving, by[serving].least["both"]))
        else:
            configs.append(
                Config(serving, by[serving].least["decode"], prefill, by[prefill].least["prefill"])
            )
    most = question.max_gpus or max(
        LEAST_ROOM, ROOM * min((each.first().devices for each in configs), default=0)
    )
    lost: Counter[str] = Counter()
    considered = left = 0
    for config, why in (*((each, "capacity") for each in configs), *dead):
        every, rest = count_of(config, most), 0
        if why == "capacity":
            rest = count_of(config, most, least_only=True)
        considered, left = considered + every, left + rest
        lost[why] += every - rest
    return Looked(tuple(configs), most, considered, left, lost)


def _lost(by: dict[Kind, Judged], serving: Kind, prefill: Kind | None) -> str:
    if prefill is None:
        return by[serving].lost.get("both", "")
    return by[prefill].lost.get("prefill", "") or by[serving].lost.get("decode", "")


def cheapest(
    question: Question,
    looked: Looked,
    ledger: Ledger,
    show: Show,
    *,
    configs: Iterable[Config] | None = None,
    by_devices: bool = False,
    up_to: float = float("inf"),
    most_trials: int | None = None,
) -> Best | None:
    """The least cost, or the fewest devices, that meets the SLO, exactly; None: none does up to there.

    `most_trials`: give up after so many, where the answer is worth no more.
    """
    own = tuple(looked.configs if configs is None else configs)
    frontier = Frontier(list(own), question.prices, looked.most_devices, by_devices)
    best: Best | None = None
    tried, limit = 0, up_to
    if not by_devices and question.max_cost is not None:
        limit = min(limit, question.max_cost)
    while batch := frontier.take(AT_ONCE, limit):
        if by_devices and question.max_cost is not None:
            batch = [each for each in batch if usd_per_hour(each, question.prices) <= question.max_cost]
        for each, trial in zip(batch, ledger.tried(batch), strict=True):
            if trial.kept.meets(question.slo, len(question.workload)):
                found = Best(each, trial, usd_per_hour(each, question.prices))
                if best is None or rank(question, found, by_devices) < rank(question, best, by_devices):
                    best = found
                limit = min(limit, order_of(best or found, by_devices))
        tried += len(batch)
        unit = "GPUs" if by_devices else "USD/h"
        show(f"{len(ledger.trials):,} simulated, at {frontier.lowest:.4g} {unit}", 0.5)
        if most_trials is not None and tried >= most_trials:
            break
    return best


def order_of(own: Best, by_devices: bool) -> float:
    return float(own.candidate.devices) if by_devices else own.usd_per_hour


def rank(question: Question, own: Best, by_devices: bool = False) -> tuple[float, float, float, str]:
    first = (own.candidate.devices, own.usd_per_hour) if by_devices else (own.usd_per_hour, 0.0)
    return (*first, own.trial.kept.strain(question.slo), key_of(own.candidate))
