"""What is asked while a lever is judged: counts, lengths and times by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.advise.load import LEAST, MOST, Load, asked, crowd
from twophase.workload.lengths import Lengths
from twophase.workload.workload import Blocks, Streams, Workload


def fixed(prompt: int, output: int, **more: float) -> Load:
    return Load(Lengths("fixed", prompt), Lengths("fixed", output), **more)  # type: ignore[arg-type]


def recorded(content: Blocks | None = None) -> Workload:
    return Workload(np.arange(10.0), np.arange(100, 110), np.full(10, 8), content)


def test_clients_ask_again_when_they_were_answered() -> None:
    made = asked(fixed(100, 10, clients=4), 4.0, 2.0)
    follows = made.workload.follows
    assert follows is not None
    assert made.workload.arrival_s[:4].tolist() == [0.0, 0.5, 1.0, 1.5]
    assert follows[:4].tolist() == [-1] * 4
    assert (follows[4:] == np.arange(len(follows) - 4)).all()
    # neither the first round nor the last, in which others are done already
    assert (made.watched.start, made.watched.stop) == (4, len(follows) - 4)


def test_a_clients_recorded_lengths_come_in_turn() -> None:
    made = asked(Load(Lengths("fixed", 1), Lengths("fixed", 1), clients=3, recorded=recorded()), 3.0, 1.0)
    assert (made.workload.prompt_tokens[:20] == [*range(100, 110), *range(100, 110)]).all()


def test_a_rate_is_kept_and_its_beginning_not_watched() -> None:
    made = asked(fixed(100, 10, rate=5.0), 20.0, 4.0)
    assert made.watched == slice(40, 40 + LEAST + 80)
    assert made.workload.rate == pytest.approx(5.0, rel=0.15)


def test_a_record_is_replayed() -> None:
    load = Load(Lengths("fixed", 1), Lengths("fixed", 1), recorded=recorded(), prompt_share=0.5)
    made = asked(load, 1.0, 1.0)
    assert made.workload.arrival_s.tolist() == list(range(10))
    assert made.workload.prompt_tokens.tolist() == np.rint(np.arange(100, 110) / 2).tolist()
    assert load.prompt_tokens == pytest.approx(52.25)


def test_a_crowd_of_a_record_repeats_it_unless_its_prompts_are_known() -> None:
    alone = Load(Lengths("fixed", 1), Lengths("fixed", 1), recorded=recorded())
    assert len(crowd(alone, 100)) == 400
    blocks = Blocks(np.arange(10), np.arange(11), 64)
    known = Load(Lengths("fixed", 1), Lengths("fixed", 1), recorded=recorded(blocks))
    assert len(crowd(known, 100)) == 10  # twice the same prompt would be found in the cache


@given(
    prompt=st.integers(1, 50_000),
    output=st.integers(1, 5_000),
    shared=st.sampled_from([0.0, 0.3, 0.9]),
    rate=st.floats(0.01, 100),
    in_flight=st.floats(1, 1e6),
)
def test_lengths_and_counts_stay_in_bounds(
    prompt: int, output: int, shared: float, rate: float, in_flight: float
) -> None:
    load = fixed(prompt, output, rate=rate, shared=shared)
    made = asked(load, in_flight, 1.0)
    assert LEAST <= made.watched.stop - made.watched.start <= MOST
    assert len(made.workload) <= 1.5 * MOST
    assert (made.workload.prompt_tokens == prompt).all()
    assert (np.diff(made.workload.arrival_s) >= 0).all()
    if shared:
        assert isinstance(made.workload.content, Streams)
        assert made.workload.content.prefix_tokens == int(shared * prompt)
    assert asked(load, in_flight, 1.0).workload.arrival_s.tolist() == made.workload.arrival_s.tolist()
