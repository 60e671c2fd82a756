"""The sampler against transformers' processors and torch, and with drafts against without."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    MinNewTokensLengthLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
)

from twophase.engine.sampler import (
    LogitsError,
    SampledRows,
    SamplerState,
    all_logprobs,
    keep_tokens,
    uniform,
)
from twophase.engine.sampling import Sampling
from twophase.errors import InputError

VOCABULARY = 300


def random_logits(rows: int, seed: int, scale: float = 2.0, vocabulary: int = VOCABULARY):
    generator = np.random.default_rng(seed)
    return (scale * generator.standard_normal((rows, vocabulary))).astype(np.float32)


def choose(logits, rows: list[tuple[SamplerState, int]]) -> list[int]:
    """One token for each (state, position)."""
    return [kept[0] for kept in keep_tokens(logits, [SampledRows(*row) for row in rows])]


def changed(logits, sampling: Sampling, prompt: list[int], output: list[int]):
    """A row as the sampler sees it."""
    state, row = SamplerState(sampling, prompt), logits.copy()
    for token in output:
        state.accept(token)
    state.change(row, len(prompt) + len(output), [])
    return row


@given(prompt=st.lists(st.integers(0, 20), max_size=30), output=st.lists(st.integers(0, 20), max_size=60))
@settings(max_examples=50, deadline=None)
def test_penalties_are_those_of_transformers_and_openai(prompt: list[int], output: list[int]) -> None:
    logits = random_logits(1, 1)[0]
    seen = torch.tensor([prompt + output], dtype=torch.long)
    repeated = changed(logits, Sampling(repetition_penalty=1.3), prompt, output)
    theirs = RepetitionPenaltyLogitsProcessor(1.3)(seen, torch.tensor(logits[None].copy()))[0].numpy()
    np.testing.assert_array_equal(repeated, theirs)

    # "mu[j] -> mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence", from OpenAI's API guide
    counts = np.bincount(output, minlength=VOCABULARY)[:VOCABULARY]
    penalised = changed(logits, Sampling(frequency_penalty=0.4, presence_penalty=-0.7), prompt, output)
    np.testing.assert_allclose(penalised, logits - counts * 0.4 + (counts > 0) * 0.7, atol=1e-5)


@pytest.mark.parametrize("done", [0, 3, 4, 9])
def test_no_stop_id_before_min_tokens(done: int) -> None:
    logits, prompt, stops = random_logits(1, 2)[0], [1, 2, 3], [7, 250]
    ours = changed(logits, Sampling(min_tokens=4, stop_ids=frozenset([*stops, 9999])), prompt, [5] * done)
    theirs = MinNewTokensLengthLogitsProcessor(3, 4, stops)(
        torch.tensor([prompt + [5] * done]), torch.tensor(logits[None].copy())
    )
    np.testing.assert_array_equal(ours, theirs[0].numpy())


def test_bias_comes_before_penalties() -> None:
    logits = np.zeros(VOCABULARY, np.float32)
    row = changed(logits, Sampling(logit_bias={3: 4.0, 8: -2.0}, repetition_penalty=2.0), [3, 8], [])
    assert (row[3], row[8]) == (2.0, -4.0)
    assert choose(logits[None], [(SamplerState(Sampling(logit_bias={5: 1.0})), 0)]) == [5]
    assert not logits.any()  # they are as they were


SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    top_k=st.sampled_from([0, 1, 8]),
    top_p=st.sampled_from([0.8, 1.0]),
    min_p=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 5),
    repetition_penalty=st.sampled_from([1.0, 1.5]),
    presence_penalty=st.sampled_from([0.0, 1.0]),
    logit_bias=st.sampled_from([{}, {2: 3.0}]),
    stop_ids=st.sampled_from([frozenset(), frozenset({2, 4})]),
    min_tokens=st.sampled_from([0, 3]),
)


@given(
    sampling=SAMPLINGS,
    seed=st.integers(0, 1000),
    right=st.integers(0, 4),
    prompt=st.lists(st.integers(0, 9), max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_verification_keeps_what_would_be_chosen_step_by_step(
    sampling: Sampling, seed: int, right: int, prompt: list[int]
) -> None:
    logits = random_logits(5, seed, vocabulary=10)  # few tokens, so that penalties and stops bite
    state, chosen = SamplerState(sampling, prompt), []
    for i in range(5):
        chosen += choose(logits[i : i + 1], [(state, len(prompt) + i)])
        state.accept(chosen[-1])
        if chosen[-1] in sampling.stop_ids:
            break
    drafts = ([*chosen, 0, 0, 0, 0])[:4]
    if right < 4:
        drafts[right] = (drafts[right] + 1) % 10
    expected = chosen[: right + 1]
    before = logits.copy()
    asked = SampledRows(SamplerState(sampling, prompt), len(prompt), drafts)
    assert keep_tokens(logits, [asked]) == [expected]
    np.testing.assert_array_equal(logits, before)


def test_a_row_is_chosen_alike_in_any_batch() -> None:
    """Among others, with padding between the rows, on two threads."""
    logits = np.full((9, VOCABULARY + 4), np.nan, np.float32)
    logits[:, :VOCABULARY] = random_logits(9, 4)
    logits = logits[:, :VOCABULARY]
    sampled = Sampling(temperature=1.0, top_p=0.9, repetition_penalty=1.2)
    asked = [
        SampledRows(SamplerState(sampled, [1, 2]), 2),
        SampledRows(SamplerState(Sampling(), [4]), 7, [5, 6]),
        SampledRows(SamplerState(replace(sampled, seed=3), [1]), 40, [int(logits[4].argmax())]),
        SampledRows(SamplerState(Sampling(temperature=0.4, min_p=0.1, frequency_penalty=1.0)), 3, [8, 9]),
    ]
    together, at = keep_tokens(logits, asked, threads=2), 0
    for each, kept in zip(asked, together, strict=True):
        rows = 1 + len(each.drafts)
        alone = np.ascontiguousarray(logits[at : at + rows])
        assert keep_tokens(alone, [each]) == [kept]
        at += rows


def test_seeds_and_positions_give_independent_uniform_numbers() -> None:
    """Moments, and correlation of neighbours, within four standard deviations."""
    for numbers in (
        np.array([uniform(7, position) for position in range(20_000)]),
        np.array([uniform(seed, 7) for seed in range(-10_000, 10_000)]),
    ):
        counts = np.bincount((numbers * 100).astype(int), minlength=100)
        assert len(counts) == 100
        assert ((counts - 200) ** 2 / 200).sum() < 99 + 4 * np.sqrt(198)
        assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 4 / np.sqrt(20_000)
    assert uniform(1, 2) != uniform(2, 1)
    assert uniform(2**70 + 5, 1) == uniform(5, 1)


def test_uniform_is_splitmix64() -> None:
    """First outputs of Vigna's splitmix64.c for state 1234567, as published on Rosetta Code.

    The state is what mixing turns a seed into; the inverse of mixing gives the seed.
    """
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]

    def unshift(value: int, by: int) -> int:
        found = value
        for _ in range(64 // by):
            found = value ^ (found >> by)
        return found

    seed = unshift(1234567, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    seed = unshift(seed, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    seed = unshift(seed, 30)
    assert [uniform(seed, position) for position in range(4)] == [
        (number >> 11) * 2.0**-53 for number in published
    ]


def test_logprobs_are_log_softmax_of_the_models_logits() -> None:
    logits = random_logits(3, 5, vocabulary=1500)
    expected = torch.log_softmax(torch.tensor(logits, dtype=torch.float64), -1)
    for row, found in enumerate(all_logprobs(logits, [7, 700, 1499], [0, 5, 1500], threads=2)):
        assert found.logprob == pytest.approx(expected[row, [7, 700, 1499][row]].item(), abs=1e-5)
        values, ids = torch.sort(expected[row], descending=True)
        count = [0, 5, 1500][row]
        assert [index for index, _ in found.top] == ids[:count].tolist()
        assert [value for _, value in found.top] == pytest.approx(values[:count].tolist(), abs=1e-5)
        assert all_logprobs(logits[row : row + 1], [[7, 700, 1499][row]], [count]) == [found]


def test_equal_logits_are_reported_by_the_lower_id() -> None:
    (found,) = all_logprobs(np.zeros((1, 600), np.float32), [599], [3])
    assert [index for index, _ in found.top] == [0, 1, 2]
    assert found.logprob == pytest.approx(-np.log(600))


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_broken_logits_are_an_error_and_change_nothing(broken: float) -> None:
    logits = random_logits(3, 6)
    logits[1, 200] = broken
    before = logits.copy()
    states = [(SamplerState(Sampling(logit_bias={1: 5.0})), 0)] * 3
    with pytest.raises(LogitsError, match="row 1 of 3"):
        choose(logits, states)
    np.testing.assert_array_equal(logits, before)
    with pytest.raises(LogitsError):
        choose(np.full((1, 50), -np.inf, np.float32), states[:1])


def test_greedy_takes_the_lowest_of_the_largest() -> None:
    logits = np.random.default_rng(5).integers(-3, 3, (40, 1000)).astype(np.float32)
    greedy = [(SamplerState(Sampling()), 0)] * 40
    assert choose(logits, greedy) == logits.argmax(axis=1).tolist()
    logits[:] = -7
    assert choose(logits, greedy) == [0] * 40


def test_nearly_no_temperature_is_greedy() -> None:
    logits = random_logits(4, 8)
    for sampling in (
        Sampling(temperature=1e-6),
        Sampling(temperature=1e-30),
        Sampling(temperature=1.0, top_k=1),
    ):
        assert choose(logits, [(SamplerState(sampling), 3)] * 4) == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"temperature": -0.1}, "temperature is -0.1; it must be 0 or more"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0.0; it must be above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"min_p": 1.01}, "min_p is 1.01"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
        ({"repetition_penalty": 1e-38}, "it must be from 0.01 to 100"),  # logits over it would be infinite
        ({"presence_penalty": float("inf")}, "presence_penalty is inf"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty is nan"),
        ({"min_tokens": -1}, "min_tokens is -1"),
        ({"logprobs": -1}, "logprobs is -1"),
        ({"logit_bias": {4: float("nan")}}, "logit_bias of token 4 is nan"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    Sampling(logit_bias={9: 1.0}, logprobs=10).require_vocabulary(10)
    with pytest.raises(InputError, match="token 10, outside the model's vocabulary of 10"):
        Sampling(logit_bias={10: 1.0}).require_vocabulary(10)
    with pytest.raises(InputError, match="logprobs is 11"):
        Sampling(logprobs=11).require_vocabulary(10)
