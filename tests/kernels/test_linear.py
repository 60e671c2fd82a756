"""Matrix products against NumPy in float64, and the promise that a row never depends on its batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.kernels.linear import grouped_linear, linear
from twophase.kernels.packing import DTYPES, FORMATS, Panels, pack_panels, panel_sizes, x_bits
from twophase.kernels.quantising import dequantise, quantise, quantise_panels
from twophase.kernels.tile import activation_dtype

THREADS = 2
NO_BIAS = np.zeros(0, np.float32)


def to_bf16(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_float32(bf16: np.ndarray) -> np.ndarray:
    return (bf16.astype(np.uint32) << 16).view(np.float32)


def packed(w: np.ndarray, form: str) -> tuple[Panels, np.ndarray]:
    """Panels, and the matrix that they stand for."""
    values, scales = panel_sizes(*w.shape, form)
    panels = Panels(
        np.empty(values, DTYPES[form]), np.empty(scales, np.uint16 if scales else np.float32), x_bits(form)
    )
    if scales:
        quantise_panels(w, form, panels)
        return panels, dequantise(panels, *w.shape)
    stored = to_bf16(w) if form == "bf16" else w
    pack_panels(stored, panels.values)
    return panels, to_float32(stored) if form == "bf16" else w


def rounding_bound(x: np.ndarray, w: np.ndarray, form: str) -> np.ndarray:
    """What rounding x by groups of k can change: half a 32767th of a group's largest, each, or a 127th."""
    known = {"int8": (128, 32767), "int4": (32, 32767), "int8-a8": (32, 127), "int4-a8": (32, 127)}
    if form not in known:
        return np.zeros((len(x), len(w)))
    group, steps = known[form]
    half_steps = np.zeros(x.shape)
    for first in range(0, x.shape[1], group):
        part = slice(first, first + group)
        half_steps[:, part] = np.abs(x[:, part]).max(axis=1, keepdims=True) / (2 * steps)
    return half_steps @ np.abs(w.T)


def operands(form: str, rows: int, n: int, k: int) -> tuple[np.ndarray, Panels, np.ndarray]:
    """x as the kernels take it, packed w, and the exact product of what both stand for."""
    taken, panels, x, w = matrices(form, rows, n, k)
    return taken, panels, x @ w.T


def matrices(form: str, rows: int, n: int, k: int) -> tuple[np.ndarray, Panels, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((rows, k), np.float32), rng.standard_normal((n, k), np.float32)
    panels, w = packed(w, form)
    taken = x
    if activation_dtype(form) == np.uint16:
        taken = to_bf16(x)
        x = to_float32(taken)
    return taken, panels, x.astype(np.float64), w.astype(np.float64)


def run(x: np.ndarray, w: Panels, bias: np.ndarray, n: int, threads: int = THREADS) -> np.ndarray:
    y = np.full((len(x), n), np.nan, np.float32)
    linear(x, w, bias, y, threads)
    return y


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("rows", "n", "k"),
    [(1, 16, 16), (2, 48, 96), (5, 80, 1040), (7, 64, 2080), (13, 144, 320), (300, 176, 64)],
)
def test_product_equals_numpy(form: str, rows: int, n: int, k: int) -> None:
    taken, panels, x, w = matrices(form, rows, n, k)
    error = np.abs(run(taken, panels, NO_BIAS, n) - x @ w.T)
    assert (error < 1e-6 * k + rounding_bound(x, w, form)).all()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("rows", [2, 30])
def test_bias_is_added_to_every_row(form: str, rows: int) -> None:
    taken, panels, x, w = matrices(form, rows, 48, 32)
    bias = np.arange(48, dtype=np.float32)
    error = np.abs(run(taken, panels, bias, 48) - (x @ w.T + bias))
    assert (error < 1e-4 + rounding_bound(x, w, form)).all()


@pytest.mark.parametrize("form", FORMATS)
@settings(deadline=None, max_examples=40)
@given(first=st.integers(0, 250), count=st.integers(1, 250), threads=st.integers(1, 2))
def test_a_row_is_the_same_bit_for_bit_in_any_batch(form: str, first: int, count: int, threads: int) -> None:
    x, w, _ = operands(form, 300, 112, 1088)
    whole = run(x, w, NO_BIAS, 112)
    part = run(x[first : first + count], w, NO_BIAS, 112, threads)
    assert np.array_equal(part, whole[first : first + count])


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_alone_is_the_same_bit_for_bit_as_among_many(form: str) -> None:
    x, w, _ = operands(form, 20, 112, 1088)
    whole = run(x, w, NO_BIAS, 112)
    for rows in (1, 2, 3, 4, 5, 6, 7):
        for first in range(0, 20, rows):
            part = x[first : first + rows]
            assert np.array_equal(run(part, w, NO_BIAS, 112), whole[first : first + rows])


@pytest.mark.parametrize("form", FORMATS)
@settings(deadline=None, max_examples=15)
@given(counts=st.lists(st.sampled_from([0, 0, 1, 3, 4, 9, 40, 230]), min_size=6, max_size=6))
def test_each_experts_rows_are_bit_for_bit_its_own_product(form: str, counts: list[int]) -> None:
    n, k, experts = 80, 304, len(counts)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    x, w, _ = operands(form, int(starts[-1]), experts * n, k)
    y = np.full((len(x), n), np.nan, np.float32)
    grouped_linear(x, w, starts, y, THREADS)
    for expert in range(experts):
        values, scales = (array.reshape(experts, -1)[expert] for array in (w.values, w.scales))
        rows = slice(starts[expert], starts[expert + 1])
        assert np.array_equal(y[rows], run(x[rows], Panels(values, scales, w.x_bits), NO_BIAS, n))


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("form", ["int8-a8", "int4-a8"])
@pytest.mark.parametrize(("rows", "n", "k"), [(1, 80, 1040), (2, 48, 16), (7, 64, 2080), (70, 176, 336)])
def test_rows_of_8_bits_give_exactly_these_sums(form: str, rows: int, n: int, k: int, extreme: bool) -> None:
    """Integers in int64, a group of 32 at a time, scaled and added in its turn, each rounded once."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((rows, k), np.float32), rng.standard_normal((n, k), np.float32)
    if extreme:  # every product as large as can be, all of one sign and of both
        x, w = np.where(rng.random((rows, 1)) < 0.5, x > 9, np.sign(x)) * 2 + 1, np.full_like(w, -1)
        x, w[::3] = x.astype(np.float32), 1
    panels, _ = packed(w, form)
    q, w_scales = quantise(w, form)
    groups = -(-k // 32)
    parts, q_parts = (
        np.pad(each, ((0, 0), (0, groups * 32 - k))).reshape(len(each), groups, 32) for each in (x, q)
    )
    top = np.abs(parts).max(axis=2)
    whole = np.rint(parts * (np.float32(127) / top)[..., None]).astype(np.int64)
    sums = np.einsum("rgi,ngi->rng", whole, q_parts.astype(np.int64))
    scale_of = np.arange(groups) * 32 // {"int8-a8": 128, "int4-a8": 32}[form]
    exact = np.zeros((rows, n), np.float32)
    for group in range(groups):
        scales = (top[:, None, group] / np.float32(127)) * w_scales[None, :, scale_of[group]]
        exact = (sums[:, :, group] * scales.astype(np.float64) + exact).astype(np.float32)
    assert np.array_equal(run(x, panels, NO_BIAS, n), exact)
