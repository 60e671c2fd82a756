"""What each phase took and did, told live."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from twophase.cost.pass_ import Pass
from twophase.server.phases import Price, Work, phases_of

PENDING = 32  # passes that are priced at once, for that is much cheaper than one by one
WINDOW_S = 10.0  # that utilisation is told of


class PhaseMeter:
    """What each phase took and did. Passes are priced some at a time, or when someone asks."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._lock = threading.Lock()
        self._pending: list[tuple[Pass, Sequence[int], float]] = []
        self._totals = Work(), Work()
        self._history: deque[tuple[float, tuple[Work, Work]]] = deque([(0.0, self._totals)])

    def passed(self, pass_: Pass, prompts: Sequence[int], seconds: float, now: float) -> None:
        """`prompts`: prompt tokens of each span's sequence."""
        with self._lock:
            self._pending.append((pass_, prompts, seconds))
            if len(self._pending) >= PENDING or now - self._history[-1][0] > WINDOW_S / 4:
                self._settle(now)

    def read(self, now: float) -> tuple[tuple[Work, Work], tuple[Work, Work]]:
        """((prefill, decode) since the start, (prefill, decode) over the last WINDOW_S)."""
        with self._lock:
            self._settle(now)
            before = self._history[0][1]
            return self._totals, (
                _minus(self._totals[0], before[0]),
                _minus(self._totals[1], before[1]),
            )

    def _settle(self, now: float) -> None:
        if self._pending:
            passes, prompts, seconds = zip(*self._pending, strict=True)
            found = phases_of(passes, prompts, seconds, self._price)
            self._totals = _plus(self._totals[0], found[0]), _plus(self._totals[1], found[1])
            self._pending.clear()
        self._history.append((now, self._totals))
        while len(self._history) > 1 and self._history[1][0] <= now - WINDOW_S:
            self._history.popleft()


def _plus(one: Work, other: Work) -> Work:
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in Work.__slots__})


def _minus(one: Work, other: Work) -> Work:
    return replace(one, **{name: getattr(one, name) - getattr(other, name) for name in Work.__slots__})
