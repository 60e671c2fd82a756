"""The same source, compiled: every policy must pass Numba and decide alike."""

import random

import pytest
from stub_executor import StubExecutor, content_keys

from twophase.scheduler import compiling
from twophase.scheduler.policy import POLICIES
from twophase.scheduler.request import Limits, Request
from twophase.scheduler.scheduler import Scheduler

pytest.importorskip("numba")


def decisions(policy: str, seed: int) -> tuple[list[object], tuple[int, int, int]]:
    draw = random.Random(seed)
    limits = Limits(blocks=24, context_length=80, max_sequences=6, max_tokens=20, block_size=4)
    served = Scheduler(limits, policy)
    executor = StubExecutor(4, drafts=lambda sequence, known: (sequence * known) % 4)
    log: list[object] = []
    for each in range(100):
        prompt, output, priority = draw.randint(1, 50), draw.randint(1, 30), draw.randint(0, 2)
        keys = executor.begin(each, prompt, shared=each % 5, shared_tokens=draw.randint(0, prompt))
        assert keys == content_keys(executor.contents[each], 4)
        served.add(Request(each, prompt, output, priority, keys))
        if draw.random() < 0.1:
            served.cancel(draw.randint(0, each))
        for _ in range(draw.randint(0, 12)):
            pass_ = served.schedule()
            if pass_ is not None:
                log.append((pass_, served.commit(pass_, executor.run(pass_))))
    return log, (served.preemptions, served.prefix_hits, executor.accepted)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_compiled_decides_alike(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "FEW_SEQUENCES", 0)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert not compiling.can_compile()
    plain = [decisions(policy, seed) for seed in range(4)]
    preemptions, hits, accepted = (sum(each) for each in zip(*(counts for _, counts in plain), strict=True))
    assert hits > 50 and accepted > 50 and (preemptions > 20 or policy in {"static", "sglang"})
    monkeypatch.delenv("NUMBA_DISABLE_JIT")
    assert compiling.can_compile()
    assert hasattr(Scheduler(Limits(blocks=1, context_length=1), policy)._policy, "signatures")
    assert [decisions(policy, seed) for seed in range(4)] == plain
