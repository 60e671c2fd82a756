"""A clock made of the passes' seconds, that keeps up with this machine's own."""

import time

LAG_S = 0.25  # of this machine's time: who is later than that goes on from now, and the time is lost


class PacedClock:
    """Seconds of simulated time, of which `speed` pass in one second here.

    A pass that follows another begins where that one ended, so what this machine does between them costs no
    simulated time. May be read from any thread; advanced from one.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self.lost_s = 0.0  # simulated seconds by which the clock fell behind for good
        self._speed = speed
        self._start = time.perf_counter()
        self._end = 0.0  # of the last pass
        self._busy = False

    def now(self) -> float:
        return (time.perf_counter() - self._start) * self._speed

    def advance(self, seconds: float) -> None:
        now = self.now()
        late = now - self._end
        if not self._busy or late > LAG_S * self._speed:
            self.lost_s += late if self._busy else 0.0
            self._end = now
        self._busy = True
        self._end += seconds
        self.wait_until(self._end)

    def rest(self) -> None:
        """Nobody is here: the next pass begins when it comes."""
        self._busy = False

    def wait_until(self, moment: float) -> None:
        rest = (moment - self.now()) / self._speed
        if rest > 0:  # to sleep no time at all gives way to others for long
            time.sleep(rest)
