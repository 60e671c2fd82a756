"""A thousand requests on a pool too small for them: every one ends once, nothing leaks, no token is lost."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from balanced_books import check
from stub_executor import StubExecutor

from twophase.cost.pass_ import Pass
from twophase.scheduler.clock import VirtualClock
from twophase.scheduler.drive import drive
from twophase.scheduler.log import Log
from twophase.scheduler.policy import POLICIES
from twophase.scheduler.request import Limits, Request
from twophase.scheduler.scheduler import Scheduler


def price(pass_: Pass) -> tuple[float, float]:
    return 1.0, 1.0


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_thousand_requests(policy: str) -> None:
    draw = random.Random(policy)
    limits = Limits(blocks=60, context_length=160, max_sequences=24, max_tokens=128, block_size=4)
    scheduler, log = Scheduler(limits, policy), Log(price)
    cancelled: set[int] = set()

    def cancel_someone() -> None:
        if log.open and draw.random() < 0.08:
            someone = draw.choice(list(log.open))
            if scheduler.cancel(someone):
                cancelled.add(someone)

    executor = StubExecutor(
        4,
        stop_after={i: draw.randint(1, 200) for i in range(0, 1000, 7)},
        during=cancel_someone,
        drafts=lambda sequence, known: sequence % 3,
    )
    arrivals, moment = [], 0.0
    for each in range(1000):
        prompt = min(120, int(draw.lognormvariate(2.8, 0.9)) + 1)
        output = draw.randint(1, 40) if each % 50 else 200  # some can never fit
        keys = executor.begin(each, prompt, each % 5, draw.randint(0, prompt))
        moment += draw.expovariate(1 / 2)
        arrivals.append((moment, Request(each, prompt, output, draw.randint(0, 2), keys)))
    arrivals += [(moment, replace(arrivals[-1][1], id=1000, prompt_tokens=150, max_output=10, block_keys=()))]
    produced: dict[int, list[int]] = {each: [] for each in range(1001)}
    for number, progress in enumerate(drive(arrivals, scheduler, executor, VirtualClock(), log)):
        for sequence, tokens in progress.tokens.items():
            produced[sequence].extend(tokens)
        if draw.random() < 0.02:
            cancel_someone()
        if number % 5 == 0:
            check(scheduler.state)

    check(scheduler.state)
    assert scheduler.used_blocks == 0 and len(scheduler) == 0 and not log.open
    assert [record.request for record in log.requests] == list(range(1001))
    outcomes = Counter(record.outcome for record in log.requests)
    assert outcomes == {
        "finished": 1001 - 20 - len(cancelled),
        "rejected": 20,
        "cancelled": len(cancelled),
    }
    assert len(cancelled) > 50
    assert scheduler.prefix_hits > 500
    if policy not in {"static", "sglang"}:  # which keep blocks for what is to come
        assert scheduler.preemptions > 30
    assert policy != "static" or scheduler.preemptions == 0
    for (_, request), record in zip(arrivals, log.requests, strict=True):
        stop = executor.stop_after.get(request.id, 10**9)
        due = min(request.max_output, max(1, stop - request.prompt_tokens))
        expected = [1000 * request.id + request.prompt_tokens + i for i in range(due)]
        count = due if record.outcome == "finished" else len(produced[request.id])
        assert produced[request.id] == expected[:count]
        assert len(record.token_s) == count
    if policy == "priority":  # whoever matters most waits least
        waits = [
            [
                r.ttft_s
                for (_, q), r in zip(arrivals, log.requests, strict=True)
                if q.priority == p and r.ttft_s
            ]
            for p in range(3)
        ]
        means = [sum(each) / len(each) for each in waits]
        assert means[0] < means[1] < means[2] and means[0] < means[2] / 3
