"""The same source, compiled: the moves and the policy must pass Numba and decide alike."""

import random
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numba
import pytest
from stub_executor import StubExecutor

from twophase.scheduler import policy, scheduler, state
from twophase.scheduler.request import Limits, Request
from twophase.scheduler.scheduler import Scheduler

MOVES = [
    state.blocks_for,
    state.enqueue,
    state.admit_first,
    state.take_blocks,
    state.release,
    state.preempt_newest,
    state.advance,
    state.leave_queue,
    state.leave,
    state.close_ranks,
    policy.first_come_first_served,
]


def compiled(functions: list[Callable[..., Any]]) -> dict[str, Any]:
    done: dict[str, Any] = {}
    for function in functions:  # each calls only those before it
        assert isinstance(function, FunctionType)
        done[function.__name__] = numba.njit(
            FunctionType(function.__code__, {**function.__globals__, **done})
        )
    return done


def decisions(seed: int) -> tuple[list[object], int]:
    draw = random.Random(seed)
    served = Scheduler(Limits(blocks=24, context_length=80, max_sequences=6, max_tokens=20, block_size=4))
    executor = StubExecutor(4)
    log: list[object] = []
    for each in range(100):
        served.add(Request(each, draw.randint(1, 50), draw.randint(1, 30)))
        if draw.random() < 0.1:
            served.cancel(draw.randint(0, each))
        for _ in range(draw.randint(0, 12)):
            pass_ = served.schedule()
            if pass_ is not None:
                log.append((pass_, served.commit(pass_, executor.run(pass_))))
    return log, served.preemptions


@pytest.mark.slow
def test_compiled_decides_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [decisions(seed) for seed in range(5)]
    assert sum(preemptions for _, preemptions in plain) > 20
    for name, function in compiled(MOVES).items():
        if hasattr(scheduler, name):
            monkeypatch.setattr(scheduler, name, function)
    assert [decisions(seed) for seed in range(5)] == plain
