"""Candidates in order of cost, without end and without writing them all down: counts grow one at a time."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twophase.plan.candidate import Candidate, Kind, key_of, usd_per_hour


@dataclass(frozen=True, slots=True)
class Config:
    """Kinds together, and the least counts that bounds leave."""

    serving: Kind
    least: int
    prefill: Kind | None = None
    least_prefill: int = 0

    def first(self) -> Candidate:
        return Candidate(self.serving, self.least, self.prefill, self.least_prefill)

    def next(self, own: Candidate) -> Iterator[Candidate]:
        """One replica more; every pair of counts is reached in one way."""
        yield Candidate(own.serving, own.replicas + 1, own.prefill, own.prefill_replicas)
        if own.prefill is not None and own.replicas == self.least:
            yield Candidate(own.serving, own.replicas, own.prefill, own.prefill_replicas + 1)


class Frontier:
    """A heap by (order, key): `order` is the cost in USD per hour, or the number of devices."""

    def __init__(
        self, configs: list[Config], prices: Mapping[str, float], most_devices: int, by_devices: bool = False
    ) -> None:
        self.prices, self.most, self.by_devices = prices, most_devices, by_devices
        self.heap: list[tuple[float, float, str, int, Candidate]] = []
        self.configs = configs
        for number, config in enumerate(configs):
            self._push(number, config.first())

    def _push(self, number: int, own: Candidate) -> None:
        if own.devices <= self.most:
            cost = usd_per_hour(own, self.prices)
            first, second = (own.devices, cost) if self.by_devices else (cost, own.devices)
            heapq.heappush(self.heap, (first, second, key_of(own), number, own))

    @property
    def lowest(self) -> float:
        """What the next one is ordered by; infinity at the end."""
        return self.heap[0][0] if self.heap else float("inf")

    def pop(self) -> Candidate:
        _, _, _, number, own = heapq.heappop(self.heap)
        for each in self.configs[number].next(own):
            self._push(number, each)
        return own

    def take(self, most: int, up_to: float) -> list[Candidate]:
        """The next ones, none beyond `up_to`."""
        found: list[Candidate] = []
        while len(found) < most and self.lowest <= up_to and self.heap:
            found.append(self.pop())
        return found


def count_of(config: Config, most_devices: int, least_only: bool = False) -> int:
    """Candidates with at most so many devices; `least_only`: from the config's least counts on."""
    size = config.serving.layout.devices
    start = config.least if least_only else 1
    if config.prefill is None:
        return max(0, most_devices // size - start + 1)
    other, begin = config.prefill.layout.devices, config.least_prefill if least_only else 1
    return sum(
        max(0, (most_devices - other * p) // size - start + 1)
        for p in range(begin, most_devices // other + 1)
    )
