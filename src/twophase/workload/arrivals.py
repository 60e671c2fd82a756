"""When calls of an open loop are due: absolute times after the start, which no late answer can shift."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twophase.workload.seeded import generator

Floats = NDArray[np.float64]
Process = Literal["poisson", "constant", "gamma"]

AT_ONCE = 1024  # gaps drawn together where nobody says how many there will be
GRAIN = 2.0**32  # gaps are whole numbers of this part of the mean gap: the last bits of a logarithm, which
# differ between machines, are not in them


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A process of requests per second; over `ramp_s` at the beginning its rate grows from zero."""

    rate: float
    process: Process = "poisson"
    burstiness: float = 1.0  # of gamma: 1 is Poisson, below it bursts, above it evens out
    ramp_s: float = 0.0

    def times(self, seed: str) -> Iterator[float]:
        """Due times in seconds after the start, without end."""
        rng = generator(seed, "arrivals")
        passed = 0.0  # calls that are due so far, on average
        while True:
            so_far = np.cumsum([passed, *self.gaps(AT_ONCE, rng)])[1:]
            passed = float(so_far[-1])
            yield from time_of(so_far, self.rate, self.ramp_s).tolist()

    def first(self, count: int, seed: str) -> Floats:
        """The first `count` of the same times."""
        return time_of(np.cumsum(self.gaps(count, generator(seed, "arrivals"))), self.rate, self.ramp_s)

    def gaps(self, count: int, rng: np.random.Generator) -> Floats:
        """From call to call, in mean gaps."""
        if self.process == "constant":
            return np.ones(count)
        if self.process == "gamma":
            drawn = rng.standard_gamma(self.burstiness, count) / self.burstiness
        else:
            drawn = rng.standard_exponential(count)
        return np.round(drawn * GRAIN) / GRAIN


def time_of(passed: Floats, rate: float, ramp_s: float) -> Floats:
    """When so many calls are due on average: the rate grows linearly over the ramp, then it stands.

    The ramp holds rate * ramp / 2 calls, the first t seconds of it rate * t^2 / (2 ramp).
    """
    in_ramp = rate * ramp_s / 2
    rising = np.sqrt(2 * ramp_s * np.minimum(passed, in_ramp) / rate)
    return np.where(passed < in_ramp, rising, ramp_s + (passed - in_ramp) / rate)
