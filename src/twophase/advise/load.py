"""What is asked of a deployment while a lever is judged: at a rate, by so many clients, or as recorded."""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import Lengths
from twophase.workload.seeded import generator
from twophase.workload.workload import Streams, Workload

LEAST, MOST = 300, 4000  # requests of a simulation
SEED = "advise"
ROUNDS = 3  # of its requests, that each client is watched for


@dataclass(frozen=True, slots=True)
class Load:
    """One of rate, clients and recorded says how requests come; with `recorded`, lengths are its own, and
    clients ask for them in turn.
    """

    prompt: Lengths
    output: Lengths
    rate: float | None = None  # requests/s, Poisson
    clients: int | None = None  # each asks again when it was answered
    recorded: Workload | None = None
    shared: float = 0.0  # of the mean prompt, a beginning that all prompts have
    prompt_share: float = 1.0  # of each prompt that is left
    output_share: float = 1.0

    @property
    def prompt_tokens(self) -> float:
        """The mean, as it is asked."""
        own = mean_of(self.prompt) if self.recorded is None else float(self.recorded.prompt_tokens.mean())
        return max(1.0, own * self.prompt_share)

    @property
    def output_tokens(self) -> float:
        own = mean_of(self.output) if self.recorded is None else float(self.recorded.output_tokens.mean())
        return max(1.0, own * self.output_share)


def mean_of(lengths: Lengths) -> float:
    return float(lengths.draws(MOST, generator(SEED, "mean")).mean())


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests, and those of them that meet the steady state: neither the first nor the last."""

    workload: Workload
    watched: slice


def asked(load: Load, in_flight: float, service_s: float) -> Asked:
    """in_flight, service_s: about how many requests are served at once, and for how long each."""
    if load.clients is None and load.recorded is not None:
        count = len(load.recorded)
        return Asked(fitted(load, load.recorded), slice(count // 10, count))
    if load.clients is not None:
        clients = load.clients
        rounds = max(ROUNDS, ceil(LEAST / 2 / clients))
        count = clients * (rounds + 2)
        number = np.arange(count)
        begins = np.where(number < clients, number * (service_s / clients), 0.0)
        made = replace(drawn(load, count, begins), follows=np.where(number < clients, -1, number - clients))
        return Asked(made, slice(clients, count - clients))
    assert load.rate is not None
    warm = ceil(min(2 * in_flight, MOST / 2))
    count = min(MOST, LEAST + 4 * ceil(min(in_flight, MOST)))
    made = drawn(load, warm + count, Arrivals(load.rate).first(warm + count, SEED))
    return Asked(made, slice(warm, warm + count))


def crowd(load: Load, seats: int) -> Workload:
    """All at once, some four times as many as are served together."""
    count = max(64, 4 * seats)
    if load.recorded is None:
        return drawn(load, count, np.zeros(count))
    own = fitted(load, load.recorded)
    if own.content is None and len(own) < count:  # alike prompts would be found in a prefix cache
        each = np.arange(count) % len(own)
        own = replace(own, prompt_tokens=own.prompt_tokens[each], output_tokens=own.output_tokens[each])
    own = own.first(count)
    return replace(own, arrival_s=np.zeros(len(own.prompt_tokens)))


def drawn(load: Load, count: int, arrival_s: np.ndarray) -> Workload:
    if load.recorded is not None:  # one after the other, from the beginning again
        each = np.arange(count) % len(load.recorded)
        prompts, outputs = load.recorded.prompt_tokens[each], load.recorded.output_tokens[each]
    else:
        prompts = load.prompt.draws(count, generator(SEED, "prompts"))
        outputs = load.output.draws(count, generator(SEED, "outputs"))
    return fitted(load, Workload(arrival_s, prompts, outputs))


def fitted(load: Load, own: Workload) -> Workload:
    """With the load's shares of prompts and outputs, and the beginning that they have in common."""
    prompts = np.maximum(1, np.rint(own.prompt_tokens * load.prompt_share)).astype(np.int64)
    outputs = np.maximum(1, np.rint(own.output_tokens * load.output_share)).astype(np.int64)
    content = own.content
    if load.shared and content is None:
        nobody = np.full(len(prompts), -1)
        shared = int(load.shared * prompts.mean())
        content = Streams(np.zeros(len(prompts), np.int64), shared, nobody)
    return replace(own, prompt_tokens=prompts, output_tokens=outputs, content=content)
