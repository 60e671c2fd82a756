"""Matrix products against NumPy in float64, and the promise that a row never depends on its batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.kernels.linear import linear
from twophase.kernels.packing import pack_panels
from twophase.kernels.tile import activation_dtype

THREADS = 2
NO_BIAS = np.zeros(0, np.float32)


def to_bf16(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_float32(bf16: np.ndarray) -> np.ndarray:
    return (bf16.astype(np.uint32) << 16).view(np.float32)


def operands(
    compute: str, rows: int, n: int, k: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x as the kernels take it, packed w, and the exact product of the rounded values."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((rows, k), np.float32), rng.standard_normal((n, k), np.float32)
    if compute == "bf16":
        w_bits = to_bf16(w)
        w = to_float32(w_bits)
        stored = w_bits
        if activation_dtype(compute) == np.uint16:
            x_bits = to_bf16(x)
            x, taken = to_float32(x_bits), x_bits
        else:
            taken = x
    else:
        stored, taken = w, x
    packed = np.empty(n * k, stored.dtype)
    pack_panels(stored, packed)
    return taken, packed, x.astype(np.float64) @ w.T.astype(np.float64)


def run(x: np.ndarray, w: np.ndarray, bias: np.ndarray, n: int, threads: int = THREADS) -> np.ndarray:
    y = np.full((len(x), n), np.nan, np.float32)
    linear(x, w, bias, y, threads)
    return y


@pytest.mark.parametrize("compute", ["bf16", "float32"])
@pytest.mark.parametrize(
    ("rows", "n", "k"), [(1, 16, 16), (2, 48, 96), (5, 80, 1040), (7, 64, 2080), (300, 112, 64)]
)
def test_product_equals_numpy(compute: str, rows: int, n: int, k: int) -> None:
    x, w, exact = operands(compute, rows, n, k)
    assert np.abs(run(x, w, NO_BIAS, n) - exact).max() < 1e-6 * k


@pytest.mark.parametrize("compute", ["bf16", "float32"])
def test_bias_is_added_to_every_row(compute: str) -> None:
    x, w, exact = operands(compute, 9, 48, 32)
    bias = np.arange(48, dtype=np.float32)
    assert np.abs(run(x, w, bias, 48) - (exact + bias)).max() < 1e-4


@pytest.mark.parametrize("compute", ["bf16", "float32"])
@settings(deadline=None, max_examples=40)
@given(first=st.integers(0, 150), count=st.integers(1, 150), threads=st.integers(1, 2))
def test_a_row_is_the_same_bit_for_bit_in_any_batch(
    compute: str, first: int, count: int, threads: int
) -> None:
    x, w, _ = operands(compute, 300, 112, 1088)
    whole = run(x, w, NO_BIAS, 112)
    part = run(x[first : first + count], w, NO_BIAS, 112, threads)
    assert np.array_equal(part, whole[first : first + count])
