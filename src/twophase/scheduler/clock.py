"""A run's own time: this machine's, or one made of the passes' seconds."""

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the run began."""

    def advance(self, seconds: float) -> None:
        """A pass took so long."""

    def wait_until(self, moment: float) -> None:
        """Nothing happens before `moment`."""


class RealClock:
    def __init__(self) -> None:
        self._start = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._start

    def advance(self, seconds: float) -> None:
        pass

    def wait_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - self.now()))


class VirtualClock:
    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def wait_until(self, moment: float) -> None:
        self._now = max(self._now, moment)
