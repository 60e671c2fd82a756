"""Routing against torch, and what sorting rows by expert must keep."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twophase.kernels.experts import gather, route, spread

NOTHING = np.zeros((0, 0), np.float32)


def routed(logits: np.ndarray, experts: int, top_k: int, renormalised: bool) -> tuple[np.ndarray, ...]:
    rows = len(logits)
    chosen, places = np.empty((2, rows, top_k), np.int64)
    weights, starts = np.empty((rows, top_k), np.float32), np.empty(experts + 1, np.int64)
    route(logits, experts, renormalised, chosen, weights, starts, places, 2)
    return chosen, weights, starts, places


@pytest.mark.parametrize("renormalised", [False, True])
@pytest.mark.parametrize(("rows", "experts", "top_k"), [(1, 8, 2), (40, 60, 4), (300, 128, 8)])
def test_choices_are_those_of_softmax_and_topk(
    rows: int, experts: int, top_k: int, renormalised: bool
) -> None:
    logits = np.random.default_rng(rows).normal(0, 3, (rows, experts + 4)).astype(np.float32)
    chosen, weights, _, _ = routed(logits, experts, top_k, renormalised)
    probabilities = torch.softmax(torch.from_numpy(logits[:, :experts]).double(), dim=-1)
    truth, indices = torch.topk(probabilities, top_k, dim=-1)
    if renormalised:
        truth = truth / truth.sum(dim=-1, keepdim=True)
    np.testing.assert_array_equal(chosen, indices.numpy())
    np.testing.assert_allclose(weights, truth.numpy(), rtol=1e-5)


def test_of_equals_the_first_is_chosen() -> None:
    chosen, weights, _, _ = routed(np.zeros((2, 16), np.float32), 9, 3, True)
    assert chosen.tolist() == [[0, 1, 2]] * 2
    np.testing.assert_allclose(weights, 1 / 3)


@given(st.integers(1, 70), st.integers(2, 20), st.integers(0, 100))
def test_rows_are_sorted_by_expert_and_come_back(rows: int, experts: int, seed: int) -> None:
    generator, top_k, width = np.random.default_rng(seed), min(3, experts), 32
    logits = generator.normal(size=(rows, experts)).astype(np.float32)
    chosen, weights, starts, places = routed(logits, experts, top_k, False)
    assert sorted(places.reshape(-1).tolist()) == list(range(rows * top_k))
    np.testing.assert_array_equal(np.diff(starts), np.bincount(chosen.reshape(-1), minlength=experts))
    for row, j in np.ndindex(rows, top_k):
        assert starts[chosen[row, j]] <= places[row, j] < starts[chosen[row, j] + 1]

    x = generator.normal(size=(rows, width)).astype(np.float32)
    sorted_x, out = np.empty((rows * top_k, width), np.float32), np.empty_like(x)
    spread(x, places, sorted_x, 2)
    gather(sorted_x, places, weights, NOTHING, logits, -1, out, 2)
    np.testing.assert_allclose(out, x * weights.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_the_shared_expert_is_added_behind_its_gate() -> None:
    generator = np.random.default_rng(0)
    y, shared = generator.normal(size=(2, 5, 16)).astype(np.float32)
    gates = generator.normal(size=(5, 17)).astype(np.float32)
    places, weights, out = np.arange(5)[:, None], np.full((5, 1), 0.25, np.float32), np.empty_like(y)
    gather(y, places, weights, shared, gates, 16, out, 2)
    np.testing.assert_allclose(out, 0.25 * y + shared / (1 + np.exp(-gates[:, 16:])), rtol=1e-5, atol=1e-6)
