"""Who waits for whom, by hand."""

import numpy as np
import pytest

from twophase.simulate.books import FINISHED_S
from twophase.simulate.pools import Sizes
from twophase.simulate.run import simulate
from twophase.workload.closed import closed, first_cohort
from twophase.workload.workload import Workload


def plain(count: int, prompt: int = 300) -> Workload:
    return Workload(np.arange(count) * 9.0, np.full(count, prompt), np.arange(5, 5 + count))


def test_requests_are_dealt_to_clients_in_turn() -> None:
    made = closed(plain(7), 3)
    assert made.follows is not None
    assert made.follows.tolist() == [-1, -1, -1, 0, 1, 2, 3]
    assert made.arrival_s.tolist() == [0.0] * 7


def test_more_clients_than_requests_all_begin_at_once() -> None:
    made = closed(plain(3), 50)
    assert made.follows is not None
    assert made.follows.tolist() == [-1, -1, -1]


def test_clients_begin_evenly_spread_unless_none_has_a_second_request() -> None:
    assert closed(plain(7), 4, 6.0).arrival_s.tolist() == [0.0, 1.5, 3.0, 4.5, 0.0, 0.0, 0.0]
    assert closed(plain(4), 4, 6.0).arrival_s.tolist() == [0.0] * 4
    talks = Workload(np.zeros(5), np.full(5, 9), np.full(5, 9), follows=np.array([-1, 0, -1, 2, -1]))
    assert first_cohort(talks, 2).tolist() == [0, 2]  # first turns alone


def test_a_client_holds_one_conversation_after_the_other() -> None:
    follows = np.array([-1, 0, 1, -1, 3, -1, 5, -1])  # of 3, 2, 2 and 1 turns
    talks = Workload(np.where(follows < 0, 7.0, 0.5), np.full(8, 10), np.full(8, 10), follows=follows)
    made = closed(talks, 2)
    assert made.follows is not None
    assert made.follows.tolist() == [-1, 0, 1, -1, 3, 2, 5, 4]
    assert made.arrival_s.tolist() == [0, 0.5, 0.5, 0, 0.5, 0, 0.5, 0]  # a thinking time between turns alone


@pytest.mark.parametrize("replicas", [1, 3])
def test_each_arrives_when_the_one_before_it_ended(replicas: int) -> None:
    made = closed(plain(24), 4)
    assert made.follows is not None
    run = simulate("llama-3.1-8b", "h100-sxm", made, replicas=replicas)
    ends, later = run.records.moments[:, FINISHED_S], np.arange(4, 24)
    assert len(run.finished) == 24
    np.testing.assert_array_equal(run.arrival_s[later], ends[made.follows[later]])
    assert run.arrival_s[:4].tolist() == [0.0] * 4


def test_a_client_whose_request_was_refused_goes_on() -> None:
    load = plain(6)
    load.prompt_tokens[2] = 10_000
    run = simulate("llama-3.1-8b", "h100-sxm", closed(load, 2), sizes=Sizes(context_length=1000))
    assert run.finished.tolist() == [0, 1, 3, 4, 5]
    assert run.arrival_s[4] == run.arrival_s[2] == run.records.moments[0, FINISHED_S]
