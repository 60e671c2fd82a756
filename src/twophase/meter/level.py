"""One level of load: what is sent, and at which pace. Plain data, the same in every process."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from twophase.meter.dialect import Dialect
from twophase.meter.feed import Session, sessions_of
from twophase.meter.prompts import Recipe
from twophase.workload.arrivals import Arrivals


@dataclass(frozen=True, slots=True)
class Level:
    """A closed loop keeps `concurrency` requests in flight; an open one sends each when it is due."""

    recipe: Recipe
    dialect: Dialect
    point: str = ""
    first: int = 0  # number of its first session
    sessions: int | None = None  # None: as many as there is time for
    turns: int = 1  # of a session
    concurrency: int | None = None
    due: Arrivals | tuple[float, ...] | None = None
    seed: str = ""  # of the arrivals
    duration_s: float | None = None  # no request goes out later
    spread_s: float = 0.0  # over which a closed loop's slots begin
    most_in_flight: int = 16_384

    @property
    def open_loop(self) -> bool:
        return self.due is not None

    @property
    def ramp_s(self) -> float:
        return self.due.ramp_s if isinstance(self.due, Arrivals) else 0.0

    def planned(self, worker: int, workers: int) -> int | None:
        """Requests of a worker's share; None where time decides."""
        if self.sessions is None:
            return None
        return len(range(worker, self.sessions, workers)) * self.turns

    def sessions_for(self, worker: int, workers: int) -> Iterator[Session]:
        """A worker's share: every so many-th session."""
        begin = self.first + worker
        share = (
            count(begin, workers)
            if self.sessions is None
            else range(begin, self.first + self.sessions, workers)
        )
        return sessions_of(self.recipe, self.dialect, self.point, iter(share), self.turns)

    def due_for(self, worker: int, workers: int) -> Iterator[float]:
        """Due times of the same sessions, in seconds after the start."""
        times = self.due.times(self.seed) if isinstance(self.due, Arrivals) else iter(self.due or ())
        return islice(times, worker, None, workers)

    def slots_for(self, worker: int, workers: int) -> list[float]:
        """When a worker's slots of a closed loop begin, in seconds after the start."""
        slots = self.concurrency or 0
        if self.sessions is not None and self.sessions <= slots:
            return [0.0] * len(range(worker, self.sessions, workers))  # all at once: what was asked for
        return [self.spread_s * slot / slots for slot in range(worker, slots, workers)]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds."""

    timeout_s: float = 600.0  # of a request, from the beginning of its connection
    grace_s: float = 30.0  # after the end of a duration, for requests in flight
    grace_interrupted_s: float = 3.0


@dataclass(slots=True)
class Progress:
    """How far a level has come."""

    elapsed_s: float = 0.0
    sent: int = 0
    done: int = 0
    failed: int = 0
    in_flight: int = 0
    planned: int | None = None
    ttft_s: float | None = None  # mean of what has been read so far
    tpot_s: float | None = None
