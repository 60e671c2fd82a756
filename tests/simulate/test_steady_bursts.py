"""What waits before a prompt, against requests that are served one pass after the other in plain Python.

As public sweeps are run: every client sends ten requests, each after the answer to the last, the first at
once.
"""

import random
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from twophase.cost import pass_times as columns
from twophase.simulate.steady_loop import Load, Passes, Queueing, Solved, solve

Floats = NDArray[np.float64]
PASS_S, ROW_S, PROMPT, OUTPUT, REQUESTS = 10e-3, 10e-6, 1000, 200, 10


@dataclass
class Request:
    prompt: int
    output: int
    arrived_s: float
    first_s: float = 0.0
    tokens: int = 1


def served(clients: int, chunk: int, least: float, prompts_first: bool) -> tuple[float, float]:
    """(mean TTFT, mean TPOT). Lengths are drawn from `least` of the nominal ones to all of them."""
    draw, now = random.Random(3), 0.0
    ttft, tpot = [], []

    def request() -> Request:
        return Request(int(PROMPT * draw.uniform(least, 1)), int(OUTPUT * draw.uniform(least, 1)), now)

    queue, running = deque(request() for _ in range(clients)), list[Request]()
    to_send = (REQUESTS - 1) * clients
    while queue or running:
        taken: list[Request] = []
        while queue and sum(each.prompt for each in taken) + queue[0].prompt <= chunk:
            taken.append(queue.popleft())
        now += PASS_S + ROW_S * sum(each.prompt for each in taken)
        decoded = [] if prompts_first and taken else running.copy()
        for each in decoded:
            each.tokens += 1
        for each in taken:
            each.first_s = now
            ttft.append(now - each.arrived_s)
        for each in [each for each in decoded if each.tokens == each.output]:
            running.remove(each)
            tpot.append((now - each.first_s) / (each.output - 1))
            if to_send:
                to_send -= 1
                queue.append(request())
        running += taken
    return sum(ttft) / len(ttft), sum(tpot) / len(tpot)


def predicted(
    clients: int, chunk: int, least: float, prompts_first: bool, burst: float, together: float = 0.0
) -> Solved:
    """A request is sent where a pass ends: it waits for none, its prompt rides in the next, or is alone."""
    mean = (1 + least) / 2
    load = {"prompt": PROMPT * mean, "output": OUTPUT * mean, "clients": clients, "prompters": clients}
    load |= {"held": 1e9, "chunk": chunk, "apart": 0, "first": prompts_first, "accepted": 1}
    known = {"front_s": 0, "request_s": 0, "burst": burst, "together": together, "prompts": 1}
    known |= {"waited": 0 if prompts_first else 1}

    def rows_s(rows: Floats) -> Floats:
        return np.where(rows > 0, PASS_S, 0.0)

    def mixed_s(rows: Floats) -> Floats:
        return np.where(rows > 0, PASS_S + ROW_S * rows, 0.0)

    own = Passes(rows_s, mixed_s, np.zeros_like, np.zeros((1, columns.COLUMNS)))
    asked = (Load(**{name: np.array([float(value)]) for name, value in load.items()}),)
    return solve(own, own, *asked, Queueing(**{name: np.array([float(v)]) for name, v in known.items()}))


@pytest.mark.parametrize("prompts_first", [False, True], ids=["mixed", "prompts first"])
@pytest.mark.parametrize("chunk", [1000, 8000])
def test_of_clients_that_spread_out_only_the_first_burst_waits(chunk: int, prompts_first: bool) -> None:
    """A tenth of all requests, each behind half of the others: a twentieth."""
    ttft, tpot = served(48, chunk, 0.8, prompts_first)
    found = predicted(48, chunk, 0.8, prompts_first, burst=0.05)
    assert found.ttft_s == pytest.approx(ttft, rel=0.18)
    assert found.tpot_s == pytest.approx(tpot, rel=0.06)


def test_in_step_half_of_all_prompts_go_before_where_prompts_go_first() -> None:
    ttft, tpot = served(48, 1000, 1.0, True)
    found = predicted(48, 1000, 1.0, True, burst=0.5)
    assert found.ttft_s == pytest.approx(ttft, rel=1e-06)
    assert found.tpot_s == pytest.approx(tpot, rel=1e-06)


def test_in_step_those_of_a_pass_go_together_where_prompts_ride() -> None:
    ttft, tpot = served(48, 4000, 1.0, False)
    found = predicted(48, 4000, 1.0, False, burst=0.05, together=3)
    assert found.ttft_s == pytest.approx(ttft, rel=0.15)
    assert found.tpot_s == pytest.approx(tpot, rel=0.05)
