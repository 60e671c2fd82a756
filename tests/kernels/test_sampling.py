"""Which tokens can be drawn, and how often, against transformers' logits processors and torch's softmax."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from twophase.kernels.sampling import (
    BLOCK,
    DRAW,
    block_maxima,
    block_sums,
    draw_tokens,
    likeliest,
    value_at,
)

VOCABULARIES = [5, 256, 1000, 5003]  # less than a block and than sixteen, one block, whole and parts of both


def maxima_of(logits, threads=1):
    rows, vocabulary = logits.shape
    maxima = np.zeros((rows, -(-vocabulary // BLOCK)), np.float32)
    block_maxima(logits.reshape(-1), vocabulary, vocabulary, maxima, threads)
    return maxima


def drawn(logits, draws, threads=1):
    rows, vocabulary = logits.shape
    flat, maxima = logits.reshape(-1), maxima_of(logits, threads)
    best, sums = maxima.max(axis=1), np.zeros_like(maxima)
    block_sums(flat, vocabulary, vocabulary, maxima, best, draws["inverse_temperature"], sums, threads)
    chosen = np.zeros(rows, np.int64)
    counter = np.zeros(1, np.int64)
    draw_tokens(flat, vocabulary, vocabulary, maxima, sums, best, draws, chosen, counter, threads)
    return chosen


def repeated(logits, uniforms, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """The row drawn from at each of the uniform numbers."""
    draws = np.zeros(len(uniforms), DRAW)
    draws["inverse_temperature"], draws["uniform"] = 1 / temperature, uniforms
    draws["top_k"], draws["top_p"], draws["min_p"] = top_k, top_p, min_p
    return drawn(np.tile(logits, (len(uniforms), 1)), draws)


def probabilities(logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """What transformers' generate draws from, in its order, in float64."""
    scores = torch.tensor(logits[None], dtype=torch.float64)
    processors = [TemperatureLogitsWarper(temperature)]
    processors += [TopKLogitsWarper(top_k)] if top_k else []
    processors += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    processors += [MinPLogitsWarper(min_p)] if min_p else []
    for processor in processors:
        scores = processor(None, scores)
    return torch.softmax(scores, -1)[0].numpy()


LIMITS = [
    {},
    {"temperature": 0.6},
    {"temperature": 1.7, "top_k": 3},
    {"top_k": 40},
    {"top_k": 700},
    {"top_p": 0.5},
    {"top_p": 0.9},
    {"top_p": 0.999},
    {"temperature": 0.1, "top_p": 0.9},
    {"temperature": 5.0, "top_p": 0.9},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"top_k": 50, "top_p": 0.8},
    {"top_p": 0.9, "min_p": 0.05},
    {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "min_p": 0.02},
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_draws_invert_the_cumulative_distribution(limits, vocabulary, scale) -> None:
    """At the middle of each token's own stretch of [0, 1) that token is drawn; none is drawn elsewhere."""
    logits = (scale * np.random.default_rng(vocabulary).standard_normal(vocabulary)).astype(np.float32)
    expected = probabilities(logits, **limits)
    ends = np.cumsum(expected)
    tokens = np.flatnonzero(expected > 1e-5)[:: max(1, np.count_nonzero(expected) // 40)]
    middles = ends[tokens] - expected[tokens] / 2
    np.testing.assert_array_equal(repeated(logits, middles, **limits), tokens)
    first, last = repeated(logits, [0.0, np.nextafter(1.0, 0.0)], **limits)
    allowed = np.flatnonzero(expected > 0)
    assert first == allowed[0]
    assert last in allowed[-3:]  # the last may weigh less than rounding


def test_frequencies_are_the_probabilities() -> None:
    """Chi-square of 20,000 draws, within four standard deviations."""
    logits = np.random.default_rng(3).standard_normal(300).astype(np.float32)
    expected = probabilities(logits, temperature=0.7, top_p=0.95)
    uniforms = np.random.default_rng(4).random(20_000)
    counts = np.bincount(repeated(logits, uniforms, temperature=0.7, top_p=0.95), minlength=300)
    assert not counts[expected == 0].any()
    kept = expected > 0
    chi_square = ((counts[kept] - 20_000 * expected[kept]) ** 2 / (20_000 * expected[kept])).sum()
    freedom = kept.sum() - 1
    assert chi_square < freedom + 4 * np.sqrt(2 * freedom)


def test_what_is_forbidden_is_never_drawn() -> None:
    logits = np.full(1000, -np.inf, np.float32)
    logits[[17, 900]] = [0.0, 1.0]
    uniforms = [0.0, 0.2, 0.5, np.nextafter(1.0, 0.0)]
    for limits in LIMITS[:4]:
        assert repeated(logits, uniforms, **limits)[[0, 3]].tolist() == [17, 900]


@pytest.mark.parametrize("at", [0, 15, 16, 255, 256, 999])
def test_nan_shows_in_the_maxima(at: int) -> None:
    logits = np.random.default_rng(6).standard_normal((2, 1000)).astype(np.float32)
    logits[1, at] = np.nan
    maxima = maxima_of(logits)
    expected = np.zeros_like(maxima, bool)
    expected[1, at // BLOCK] = True
    np.testing.assert_array_equal(np.isnan(maxima), expected)


@pytest.mark.parametrize("threads", [2, 3])
def test_neither_threads_nor_other_rows_matter(threads: int) -> None:
    generator = np.random.default_rng(7)
    logits = generator.standard_normal((11, 3001)).astype(np.float32) * 2
    draws = np.zeros(11, DRAW)
    draws["inverse_temperature"] = generator.choice([0, 0.5, 1.5], 11)
    draws["top_k"], draws["top_p"] = generator.choice([0, 30], 11), generator.choice([0.7, 1.0], 11)
    draws["uniform"] = generator.random(11)
    alone = [drawn(logits[i : i + 1], draws[i : i + 1])[0] for i in range(11)]
    np.testing.assert_array_equal(drawn(logits, draws, threads), alone)


def test_likeliest_are_torch_topk_with_the_lower_id_among_equals() -> None:
    generator = np.random.default_rng(8)
    logits = generator.standard_normal((2, 2000)).astype(np.float32)
    logits[1] = np.round(logits[1])
    maxima, ids = maxima_of(logits), np.zeros((2, 20), np.int64)
    for row in range(2):
        likeliest(logits.reshape(-1), row * 2000, 2000, maxima[row], ids[row])
    assert sorted(torch.topk(torch.tensor(logits[0]), 20).indices.tolist()) == ids[0].tolist()
    assert sorted(np.argsort(-logits[1], kind="stable")[:20].tolist()) == ids[1].tolist()


@given(
    values=st.lists(st.integers(-4, 4), max_size=60),
    before=st.sampled_from([0, 2]),
    target=st.integers(3, 300),
)
@settings(max_examples=200, deadline=None)
def test_value_at_is_a_walk_through_the_sorted_values(values: list[int], before: int, target: int) -> None:
    """Weights are whole numbers, equal for equal values, so that sums are exact in any order."""
    mass, expected = before, -np.inf
    for value in sorted(values, reverse=True):
        mass += value % 5
        if mass >= target:
            expected = value
            break
    array = np.array(values, np.float32)
    assert value_at(array, np.array([value % 5 for value in values], float), before, target) == expected
