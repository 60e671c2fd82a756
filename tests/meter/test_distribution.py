"""Samples that are kept by how often each value occurs, against the same values one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.meter.distribution import BIN, PERCENTILES, Distribution, binned, weighted

samples = st.lists(
    st.tuples(st.just(0.0) | st.floats(1e-6, 1e4), st.integers(1, 50)), min_size=1, max_size=60
)


def arrays(sample: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
    values, often = np.array(sample, np.float64).T
    return values, often


def one_by_one(sample: list[tuple[float, int]]) -> np.ndarray:
    return np.repeat([value for value, _ in sample], [number for _, number in sample])


def found_of(own: Distribution | None) -> list[float]:
    assert own is not None
    return [own.count, own.mean, own.p50, own.p90, own.p95, own.p99, own.max]


@given(samples)
def test_weights_are_repetitions(sample: list[tuple[float, int]]) -> None:
    every = one_by_one(sample)
    wanted = [len(every), every.mean(), *np.percentile(every, PERCENTILES), every.max()]
    assert found_of(weighted(*arrays(sample))) == pytest.approx(wanted, rel=1e-9)


@given(samples)
def test_bins_keep_count_and_mean_and_come_near_every_value(sample: list[tuple[float, int]]) -> None:
    every = one_by_one(sample)
    made = binned(*arrays(sample))
    again = np.sort(one_by_one(list(made)))
    assert len(again) == len(every)
    assert again.mean() == pytest.approx(every.mean(), rel=1e-9)
    assert again == pytest.approx(np.sort(every), rel=1.001 * BIN)


def test_many_values_become_few() -> None:
    values = np.geomspace(1e-4, 10.0, 200_000)
    assert len(binned(values, np.ones(len(values)))) < 12_000


def test_nothing() -> None:
    nothing = np.zeros(0)
    assert weighted(nothing, nothing) is None
    assert binned(nothing, nothing) == ()
