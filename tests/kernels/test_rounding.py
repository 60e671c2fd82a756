"""Rows rounded to 16 bits: within half a step of each group's largest, by the definition."""

import numpy as np
import pytest

from twophase.kernels.rounding import round_to_int16

GROUP, K = 32, 80


def rounded(x: np.ndarray, threads: int = 2) -> tuple[np.ndarray, np.ndarray]:
    values = np.zeros(x.size, np.int16)
    scales = np.zeros(len(x) * -(-x.shape[1] // GROUP), np.float32)
    round_to_int16(x, GROUP, values, scales, threads)
    return values.reshape(x.shape), np.repeat(scales.reshape(len(x), -1), GROUP, axis=1)[:, : x.shape[1]]


@pytest.mark.parametrize("rows", [1, 500])  # few, and enough for threads
def test_every_element_is_within_half_a_step(rows: int) -> None:
    x = np.random.default_rng(0).standard_normal((rows, K), np.float32)
    values, scales = rounded(x)
    for first in range(0, K, GROUP):
        step = np.abs(x[:, first : first + GROUP]).max(axis=1) / 32767
        assert np.allclose(scales[:, first], step, rtol=1e-6)
    assert (np.abs(values * scales.astype(np.float64) - x) <= scales * 0.51).all()
    assert np.abs(values).max() == 32767


def test_nothing_stays_nothing_and_what_is_no_number_spoils_its_group_alone() -> None:
    x = np.ones((3, K), np.float32)
    x[0, :GROUP] = 0
    x[1, GROUP] = np.nan
    x[2, 0] = np.inf
    values, scales = rounded(x)
    assert not values[0, :GROUP].any() and not scales[0, :GROUP].any()
    assert np.isnan(scales[1, GROUP : 2 * GROUP]).all() and np.isnan(scales[2, :GROUP]).all()
    assert np.isfinite(scales[1, :GROUP]).all() and np.isfinite(scales[2, GROUP:]).all()
