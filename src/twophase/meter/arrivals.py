"""When calls of an open loop are due: absolute times after the start, which no late answer can shift."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, sqrt
from random import Random
from typing import Literal

Process = Literal["poisson", "constant", "gamma"]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A process of requests per second; over `ramp_s` at the beginning its rate grows from zero."""

    rate: float
    process: Process = "poisson"
    burstiness: float = 1.0  # of gamma: 1 is Poisson, below it bursts, above it evens out
    ramp_s: float = 0.0

    def times(self, seed: str) -> Iterator[float]:
        """Due times in seconds after the start, without end."""
        rng = Random(seed)
        passed = 0.0  # calls that are due so far, on average
        while True:
            passed += self.gap(rng)
            yield time_of(passed, self.rate, self.ramp_s)

    def gap(self, rng: Random) -> float:
        """To the next call, in mean gaps."""
        match self.process:
            case "constant":
                return 1.0
            case "gamma":
                return rng.gammavariate(self.burstiness, 1.0 / self.burstiness)
        return rng.expovariate(1.0)


def time_of(passed: float, rate: float, ramp_s: float) -> float:
    """When so many calls are due on average: the rate grows linearly over the ramp, then it stands.

    The ramp holds rate * ramp / 2 calls, the first t seconds of it rate * t^2 / (2 ramp).
    """
    in_ramp = rate * ramp_s / 2
    if passed < in_ramp:
        return sqrt(2 * ramp_s * passed / rate)
    return ramp_s + (passed - in_ramp) / rate


def ladder(first: float, last: float = inf, factor: float = 2.0) -> Iterator[float]:
    """The loads of a sweep, each a factor above the one before it, the last one exact."""
    load = first
    while load < last:
        yield load
        load *= factor
    if last < inf:
        yield last
