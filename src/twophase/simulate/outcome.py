"""What a simulation gave: what became of each request, what each replica did, and figures of both."""

from dataclasses import dataclass, field

import numpy as np

from twophase.simulate.books import (
    BUSY_S,
    CACHED,
    DECODES,
    FINISHED,
    FINISHED_S,
    FIRST_TOKEN_S,
    GAP_S,
    GROWTH_S,
    OUTCOME,
    PASSES,
    PRODUCED,
    REJECTED,
    SCHEDULED_S,
    SECONDS,
    SEQUENCES,
    STEADY,
    TOTAL_BYTES,
    TOTAL_FLOPS,
    UNSEEN,
    Floats,
    Ints,
    Passes,
    Records,
    Replica,
)
from twophase.simulate.pools import Pool
from twophase.units import significant
from twophase.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Served:
    """One replica's work."""

    pool: Pool
    passes: Passes
    busy_s: float
    flops: float
    bytes: float


def served_of(pool: Pool, replica: Replica, passes: Passes) -> Served:
    clock = replica.clock
    return Served(pool, passes, float(clock[BUSY_S]), float(clock[TOTAL_FLOPS]), float(clock[TOTAL_BYTES]))


@dataclass(frozen=True, slots=True)
class Growth:
    """The queue of a load beyond what is served."""

    arriving_per_s: float
    served_per_s: float  # a rate at which it would not grow

    def __str__(self) -> str:
        return (
            f"The queue grows without bound: {significant(self.arriving_per_s)} requests/s come, about "
            f"{significant(self.served_per_s)} are served; at that rate it would not grow"
        )


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds on the simulation's clock. Arrays by request, in the order of the workload."""

    workload: Workload
    arrival_s: Floats  # nan: it never came
    records: Records
    routes: Ints  # the engine that each went to first
    transfers: Floats | None  # [requests, 2]: its KV sent from, and arrived at
    replicas: tuple[Served, ...] = field(repr=False)
    ended_s: float = 0.0
    growth: Growth | None = None
    notes: tuple[str, ...] = ()
    # rows of the requests that filled a closed loop: no steady state yet
    first_cohort: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def finished(self) -> Ints:
        """Rows of those that were served."""
        return np.flatnonzero(self.records.counts[:, OUTCOME] == FINISHED)

    @property
    def late(self) -> int:
        """Requests that were to come after the moment at which the run was stopped."""
        unseen = self.records.counts[:, OUTCOME] == UNSEEN
        return int(np.count_nonzero(unseen & ~np.isnan(self.arrival_s)))

    @property
    def ends_s(self) -> Floats:
        """Of all requests: when each was done; nan where it wasn't, its arrival where it was refused."""
        refused = self.records.counts[:, OUTCOME] == REJECTED
        return np.where(refused, self.arrival_s, self.records.moments[:, FINISHED_S])

    def moments(self, column: int) -> Floats:
        return np.asarray(self.records.moments[self.finished, column])

    @property
    def ttft_s(self) -> Floats:
        """From arrival to first token, of finished requests; so are the next three."""
        return self.moments(FIRST_TOKEN_S) - self.arrival_s[self.finished]

    @property
    def tpot_s(self) -> Floats:
        """(last token - first) / (tokens - 1); those of a single token have none."""
        later = self.output_tokens - 1
        took = self.moments(FINISHED_S) - self.moments(FIRST_TOKEN_S)
        return np.asarray((took / np.maximum(later, 1))[later > 0])

    @property
    def e2e_s(self) -> Floats:
        return self.moments(FINISHED_S) - self.arrival_s[self.finished]

    @property
    def queue_s(self) -> Floats:
        return self.moments(SCHEDULED_S) - self.arrival_s[self.finished]

    @property
    def output_tokens(self) -> Ints:
        """Of finished requests."""
        return np.asarray(self.records.counts[self.finished, PRODUCED])

    @property
    def output_tokens_per_s(self) -> float:
        lasted = self.ended_s - float(np.nanmin(self.arrival_s, initial=np.inf))
        return float(self.output_tokens.sum() / lasted) if lasted > 0 else 0.0

    @property
    def cached_tokens(self) -> int:
        """Of prompts, found in a prefix cache."""
        return int(self.records.counts[:, CACHED].sum())

    @property
    def gaps_s(self) -> tuple[Floats, Floats]:
        """(seconds between a token and the one before it, how often): all requests' together."""
        parts = [gaps_of(each.passes) for each in self.replicas]
        return np.concatenate([each[0] for each in parts]), np.concatenate([each[1] for each in parts])

    @property
    def pools(self) -> list[Pool]:
        """Each once, in the order of their replicas."""
        return list({id(each.pool): each.pool for each in self.replicas}.values())

    @property
    def devices(self) -> int:
        return sum(pool.devices for pool in self.pools)


def gaps_of(passes: Passes) -> tuple[Floats, Floats]:
    """In the first pass of a row as many of its length as sequences were steady, in later ones of all."""
    alike = passes.counts[:, PASSES]
    seconds, growth = passes.seconds[:, SECONDS], passes.seconds[:, GROWTH_S]
    first = (seconds - growth * alike * (alike - 1) / 2) / np.maximum(alike, 1)
    row = np.repeat(np.arange(len(alike)), alike)
    number = np.arange(len(row)) - np.repeat(np.cumsum(alike) - alike, alike)
    lengths = first[row] + growth[row] * number
    often = np.where(number == 0, passes.counts[row, STEADY], passes.counts[row, DECODES])
    values = np.concatenate([lengths, passes.gaps[:, GAP_S]])
    weights = np.concatenate([often.astype(np.float64), passes.gaps[:, SEQUENCES]])
    kept = weights > 0
    return values[kept], weights[kept]


# Assumed: a queue is said to grow where it is more than so many requests, more than so many times as long as
# at half of the time, and grows by more than this share of the arrivals
QUEUE, LONGER, FASTER = 20, 1.5, 0.02


def growth_of(arrival_s: Floats, scheduled_s: Floats, until_s: float) -> Growth | None:
    """Where the queue is longer the later it is: in the second half of the arrivals it grows on and on."""
    came = np.sort(arrival_s[arrival_s <= until_s])
    if len(came) < 4 * QUEUE or came[-1] <= came[0]:
        return None
    begun = np.sort(np.where(np.isnan(scheduled_s), np.inf, scheduled_s))
    moments = np.linspace((came[0] + came[-1]) / 2, came[-1], 64)
    queue = np.searchsorted(came, moments, side="right") - np.searchsorted(begun, moments, side="right")
    rate = (len(came) - np.searchsorted(came, moments[0])) / (moments[-1] - moments[0])
    slope = float(np.polyfit(moments - moments[0], queue, 1)[0])
    grows = slope > FASTER * rate and queue[-1] > QUEUE and queue[-1] > LONGER * queue[0]
    return Growth(float(rate), float(rate - slope)) if grows else None
