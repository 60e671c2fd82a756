import numpy as np

from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import Lengths
from twophase.workload.synthetic import Pairs, Recipe, synthetic
from twophase.workload.workload import Streams

PLAIN = Recipe(Arrivals(10.0), Lengths("lognormal", 300, 0.8), Lengths("uniform", 5, 50))


def test_the_same_seed_gives_the_same_requests_and_another_others() -> None:
    one, two, other = (synthetic(PLAIN, 500, seed) for seed in ("a", "a", "b"))
    assert np.array_equal(one.arrival_s, two.arrival_s)
    assert np.array_equal(one.prompt_tokens, two.prompt_tokens)
    assert not np.array_equal(one.prompt_tokens, other.prompt_tokens)
    assert np.array_equal(synthetic(PLAIN, 100, "a").prompt_tokens, one.prompt_tokens[:100])


def test_pairs_of_a_trace_stay_together() -> None:
    pairs = Pairs(np.array([10, 20, 30]), np.array([1, 2, 3]))
    made = synthetic(Recipe(Arrivals(1.0), PLAIN.prompt, PLAIN.output, pairs), 300, "s")
    assert np.array_equal(made.prompt_tokens, 10 * made.output_tokens)
    assert set(made.output_tokens.tolist()) == {1, 2, 3}


def test_turns_carry_all_before_them_behind_a_shared_prefix() -> None:
    recipe = Recipe(
        *(Arrivals(1.0), Lengths("fixed", 100), Lengths("fixed", 30)),
        prefix_tokens=1000,
        prefixes=2,
        turns=3,
        think_s=2.5,
    )
    made = synthetic(recipe, 8, "s")
    assert made.prompt_tokens.tolist() == [1100, 1230, 1360, 1100, 1230, 1360, 1100, 1230]
    assert made.follows is not None
    assert made.follows.tolist() == [-1, 0, 1, -1, 3, 4, -1, 6]
    assert made.arrival_s[[1, 2, 4, 5, 7]].tolist() == [2.5] * 5
    assert isinstance(made.content, Streams)
    assert made.content.prefix.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]
    assert made.content.conversation.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
