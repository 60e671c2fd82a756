"""What a simulated deployment gives its users, and what it takes: the figures that a lever moves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twophase.advise.load import Asked, Load, asked, crowd
from twophase.advise.point import around, full_service_s
from twophase.advise.setup import Setup, pools_of, seats_of, served
from twophase.simulate.books import CACHED, FINISHED, FINISHED_S, FIRST_TOKEN_S, OUTCOME, PRODUCED
from twophase.simulate.outcome import Run
from twophase.simulate.pools import Pool

Floats = NDArray[np.float64]
TAIL = 0.99  # the quantile that counts
PARTS = 5  # of a run, that tell its chance
GOOD = 0.9  # share of requests that must meet the limits
FASTEST, RATES = 1.25, 128  # rates that are tried: equal parts of so many times the most that is served
METRICS = ("ttft", "tpot", "e2e")  # that an SLO can limit


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over the watched requests, but for what is said. Rates are of all devices together."""

    ttft_s: float
    ttft_p99_s: float
    itl_s: float  # over tokens
    gap_p99_s: float  # over gaps between tokens
    e2e_s: float
    requests_per_s: float  # at the most: of clients who wait for answers, or of a crowd that comes at once
    output_tokens_per_s: float
    usd_per_million_output_tokens: float | None  # at that
    usd_per_1000_requests: float | None
    device_s_per_request: float
    good: float | None  # share of the requests that meet the SLO
    goodput_per_s: float | None  # requests that meet it, at the load
    most_good_per_s: float | None  # the rate up to which GOOD of them do; of clients, what meets it
    cached_share: float  # of prompt tokens
    grows: bool  # the queue, without bound
    devices: int
    counted: int  # requests that the rates were counted over
    ttft_parts: tuple[float, ...]  # the same means over PARTS equal parts of the watched requests
    itl_parts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Rates:
    """Of finished requests and their tokens, a second."""

    requests: float
    tokens: float
    seen: int  # requests that were counted


@dataclass(frozen=True, slots=True)
class Trial:
    figures: Figures
    pools: list[Pool]
    run: Run  # at the load
    asked: Asked


def tried(
    own: Setup,
    load: Load,
    slo: Sequence[tuple[str, float]],
    *,
    most_good: bool = False,
    near: int | None = None,
    most: Rates | None = None,
) -> Trial:
    """Two simulations: at the load, and of a crowd, unless `most` says what that gives; with `most_good` some
    more, for the rate up to which the limits are met, looked for `near`. InputError where the model does not
    fit.
    """
    pools = pools_of(own, crowd(load, 1))
    made = asked(load, *in_flight(pools[-1], load))
    run = served(own, pools, made.workload)
    if load.clients:
        most = closed_rates(run, made, load.clients)
    elif most is None:
        most = crowded(own, load, pools)[1]
    found = figures_of(own, run, made, most, slo, load)
    if most_good:
        at_most = found.goodput_per_s
        if load.clients is None:
            at_most = best_rate(own, load, pools, most, slo, near)
        found = replace(found, most_good_per_s=at_most)
    return Trial(found, pools, run, made)


def best_rate(
    own: Setup, load: Load, pools: list[Pool], most: Rates, slo: Sequence[tuple[str, float]], near: int | None
) -> float:
    """Requests a second up to which GOOD of them meet the limits; 0 where none does."""

    def meets(part: int) -> bool:
        faster = at_rate(load, part * a_part)
        made = asked(faster, *in_flight(pools[-1], faster))
        good = figures_of(own, served(own, pools, made.workload), made, most, slo, faster).good
        return good is not None and good >= GOOD

    a_part = FASTEST * most.requests / RATES
    return last_that(meets, RATES, near) * a_part if a_part else 0.0


def last_that(holds: Callable[[int], bool], count: int, near: int | None = None) -> int:
    """The last of 1 .. count that holds, where all before it do; 0: none. By halving, or in growing steps
    from `near`, then by halving: cheaper where it lies there.
    """
    low, high, step = 0, count + 1, count if near is None else 1
    at = (low + high) // 2 if near is None else min(max(1, near), count)
    while high - low > 1:
        if holds(at):
            low, ahead = at, at + step
        else:
            high, ahead = at, at - step
        step *= 2
        at = ahead if low < ahead < high and (low == 0 or high > count) else (low + high) // 2
    return low


def part_of(made: Figures) -> int | None:
    """Where among the rates the best one was found."""
    found, most = made.most_good_per_s, made.requests_per_s
    return round(found / most / FASTEST * RATES) if found and most else None


def at_rate(load: Load, rate: float) -> Load:
    if load.recorded is None:
        return replace(load, rate=rate)
    now = load.recorded.rate
    return replace(load, recorded=load.recorded.faster(rate / now)) if now else load


def crowded(own: Setup, load: Load, pools: list[Pool]) -> tuple[Run, Rates]:
    """As many clients as are served together, who have half of their outputs on average.

    Prompts whose contents were recorded come all at once: in another order they would share other blocks.
    """
    seats = seats_of(pools[-1], crowd(load, 1), written=0.5)
    if load.recorded is not None and load.recorded.content is not None:
        run = served(own, pools, crowd(load, seats))
        return run, rates(run)
    full = replace(load, clients=seats, rate=None)
    made = asked(full, *in_flight(pools[-1], full))
    run = served(own, pools, made.workload)
    return run, closed_rates(run, made, seats)


def in_flight(pool: Pool, load: Load) -> tuple[float, float]:
    """(requests served at once, seconds for each), about: how many to simulate, and when they begin."""
    if load.clients is not None:
        return load.clients, full_service_s(
            pool.estimate.times,
            load.prompt_tokens * (1 - load.shared),
            load.output_tokens,
            pool.limits.budget,
            load.clients / pool.count,
        )
    batch, service = around(
        pool.estimate.times,
        load.prompt_tokens,
        load.output_tokens,
        pool.limits.budget,
        pool.limits.max_sequences,
        (load.rate or 0.0) / pool.count,
    )
    return batch * pool.count, service


def closed_rates(run: Run, made: Asked, clients: int) -> Rates:
    """By Little's law: each client always has one request under way."""
    counts, moments = run.records.counts[made.watched], run.records.moments[made.watched]
    done = counts[:, OUTCOME] == FINISHED
    if not done.any():
        return Rates(0.0, 0.0, 0)
    e2e_s = float((moments[:, FINISHED_S] - run.arrival_s[made.watched])[done].mean())
    rate = clients / e2e_s
    return Rates(rate, rate * float(counts[done, PRODUCED].mean()), int(done.sum()))


def rates(run: Run) -> Rates:
    """From the moment at which a quarter is through until three quarters are."""
    counts, ends = run.records.counts, run.records.moments[:, FINISHED_S]
    done = np.flatnonzero(counts[:, OUTCOME] == FINISHED)
    done = done[np.argsort(ends[done], kind="stable")]
    ends, tokens = ends[done], counts[done, PRODUCED]
    if len(ends) < 4:
        return Rates(0.0, 0.0, 0)
    first, last = ends[len(ends) // 4 - 1], ends[3 * len(ends) // 4 - 1]
    inside = (ends > first) & (ends <= last)
    if last <= first:  # all end in one pass
        return Rates(len(ends) / run.ended_s, float(tokens.sum()) / run.ended_s, len(ends))
    lasted = float(last - first)
    return Rates(float(inside.sum()) / lasted, float(tokens[inside].sum()) / lasted, int(inside.sum()))


def figures_of(
    own: Setup,
    run: Run,
    made: Asked,
    most: Rates,
    slo: Sequence[tuple[str, float]],
    load: Load,
) -> Figures:
    counts, moments = run.records.counts[made.watched], run.records.moments[made.watched]
    done = counts[:, OUTCOME] == FINISHED
    arrived = run.arrival_s[made.watched]
    ttft = (moments[:, FIRST_TOKEN_S] - arrived)[done]
    e2e = (moments[:, FINISHED_S] - arrived)[done]
    later = np.maximum(counts[done, PRODUCED] - 1, 0)
    decoding = e2e - ttft
    tpot = decoding / np.maximum(later, 1)
    requests, tokens = most.requests, most.tokens
    price, devices = own.price_per_hour, own.devices
    a_second = None if price is None else price / 3600
    good = None
    if slo:
        values = {"ttft": ttft, "tpot": tpot, "e2e": e2e}
        meets = np.logical_and.reduce([values[metric] <= limit for metric, limit in slo])
        good = float(meets.sum() / len(done)) if len(done) else 0.0
    arriving = requests if load.clients is not None else (load.rate or run.workload.rate)
    return Figures(
        ttft_s=mean(ttft),
        ttft_p99_s=float(np.quantile(ttft, TAIL)) if len(ttft) else float("nan"),
        itl_s=float(decoding.sum() / later.sum()) if later.sum() else 0.0,
        gap_p99_s=weighted_quantile(*run.gaps_s),
        e2e_s=mean(e2e),
        requests_per_s=requests,
        output_tokens_per_s=tokens,
        usd_per_million_output_tokens=None if a_second is None or not tokens else a_second / tokens * 1e6,
        usd_per_1000_requests=None if a_second is None or not requests else a_second / requests * 1e3,
        device_s_per_request=devices / requests if requests else float("inf"),
        good=good,
        goodput_per_s=None if good is None else good * arriving,
        most_good_per_s=None,
        cached_share=float(counts[:, CACHED].sum() / run.workload.prompt_tokens[made.watched].sum()),
        grows=run.growth is not None,
        devices=devices,
        counted=most.seen,
        ttft_parts=tuple(mean(each) for each in np.array_split(ttft, PARTS)),
        itl_parts=tuple(mean(each) for each in np.array_split(tpot, PARTS)),
    )


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def weighted_quantile(values: Floats, often: Floats) -> float:
    if not len(values):
        return 0.0
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(often[order])
    return float(values[order][np.searchsorted(up_to, TAIL * up_to[-1])])
