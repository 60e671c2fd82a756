"""Which load comes next: upward until the server is saturated, or to the most that still meets an SLO."""

from collections.abc import Sequence
from dataclasses import dataclass

FACTOR = 2.0
LEAST_GAIN = 1.05  # in throughput, of a step: less is saturation
LATE = 0.95  # of an open loop's rate that is served: less is saturation
ATTAINED = 0.95  # of requests within the SLO: a load with fewer does not meet it
NEAR = 1.1  # ratio of the loads between which an SLO's limit lies, at which bisection ends
MOST_LEVELS = 16
LARGEST = 16_384


@dataclass(frozen=True, slots=True)
class Step:
    """One level of a sweep, measured."""

    load: float  # streams at once, or requests per second
    throughput: float  # output tokens per second
    served: float | None  # share of an open loop's rate that was served; None: a closed one
    good: float | None  # share of requests within the SLO; None: there is none
    ended: bool = False  # early: interrupted, or the server went


def next_load(steps: Sequence[Step], first: float, whole: bool) -> float | None:
    """The next level's load; None where the sweep is over. `whole`: loads are whole numbers of streams."""
    if not steps:
        return first
    if steps[-1].ended or len(steps) >= MOST_LEVELS:
        return None
    met = [step.load for step in steps if step.good is not None and step.good >= ATTAINED]
    missed = [step.load for step in steps if step.good is not None and step.good < ATTAINED]
    if missed:
        return between(max(met, default=0.0), min(missed), whole)
    if not met and saturated(steps):  # an SLO's limit lies where it is missed, however little a load buys
        return None
    load = steps[-1].load * FACTOR
    return load if load <= LARGEST else None


def between(met: float, missed: float, whole: bool) -> float | None:
    """The middle of the loads that meet an SLO and those that miss it, while they are far apart."""
    middle = (met * missed) ** 0.5 if met else missed / 2
    if whole:
        middle = float(max(int(middle), int(met) + 1))
        return middle if met < middle < missed and missed / max(met, 1) > NEAR else None
    return middle if missed / max(met, missed / 64) > NEAR else None


def saturated(steps: Sequence[Step]) -> bool:
    """Whether the last step bought nothing: no throughput in a closed loop, no service in an open one."""
    last = steps[-1]
    if last.served is not None:
        return last.served < LATE
    return len(steps) > 1 and last.throughput < LEAST_GAIN * max(step.throughput for step in steps[:-1])
