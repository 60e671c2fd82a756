import pytest
from balanced_books import check
from stub_executor import StubExecutor

from twophase.cost.pass_ import Pass
from twophase.errors import InputError
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler


def served(scheduler: Scheduler) -> list[Pass]:
    executor = StubExecutor(scheduler.limits.block_size)
    while (pass_ := scheduler.schedule()) is not None:
        scheduler.commit(pass_, executor.run(pass_))
        check(scheduler.state)
    return executor.passes


def test_a_prompt_is_one_pass_and_each_further_token_another() -> None:
    scheduler = Scheduler(Limits(blocks=8, context_length=64))
    assert scheduler.add(Request(7, prompt_tokens=20, max_output=3)) is None
    passes = served(scheduler)
    assert [p.shape for p in passes] == [((20, 0),), ((1, 20),), ((1, 21),)]
    assert all(span.sequence == 7 and span.logit_rows for p in passes for span in p.spans)
    assert scheduler.free_blocks == 8 and len(scheduler) == 0


def test_block_accounting() -> None:
    """43 blocks of 16, prompt 526, 8 new tokens, budget 128."""
    scheduler = Scheduler(Limits(blocks=43, context_length=4096, max_tokens=128, block_size=16))
    scheduler.add(Request(0, 526, 8))
    chunks = []
    for _ in range(5):
        pass_ = scheduler.schedule()
        assert pass_ is not None
        (span,) = pass_.spans
        chunks.append((span.new, span.logit_rows))
        scheduler.commit(pass_, PassOutcome({0: [1]} if span.logit_rows else {}))
    assert chunks == [(128, 0), (128, 0), (128, 0), (128, 0), (14, 1)]
    assert 43 - scheduler.free_blocks == 33
    scheduler.add(Request(1, 526, 8))
    for _ in range(7):
        pass_ = scheduler.schedule()
        assert pass_ is not None
        assert [span.sequence for span in pass_.spans] == [0]  # the second waits: 33 blocks do not fit in 9
        held, free = len(pass_.spans[0].blocks), scheduler.free_blocks
        finished = scheduler.commit(pass_, PassOutcome({0: [1]}))
    assert (held, free) == (34, 9)
    assert finished == [0]
    assert [p.shape for p in served(scheduler)][:5] == [((128, 128 * i),) for i in range(4)] + [((14, 512),)]


def test_decodes_first_then_the_prompt_fills_the_budget() -> None:
    scheduler = Scheduler(Limits(blocks=64, context_length=64, max_tokens=8, block_size=4))
    for each in range(3):
        scheduler.add(Request(each, 2, 30))
    first = scheduler.schedule()
    assert first is not None and first.shape == ((2, 0), (2, 0), (2, 0))
    scheduler.commit(first, PassOutcome({0: [1], 1: [1], 2: [1]}))
    scheduler.add(Request(3, 9, 1))
    shapes = []
    for _ in range(3):
        pass_ = scheduler.schedule()
        assert pass_ is not None
        shapes.append(pass_.shape)
        scheduler.commit(pass_, PassOutcome({s.sequence: [1] for s in pass_.spans if s.logit_rows}))
    decodes = [((1, 2 + i),) * 3 for i in range(3)]
    assert shapes == [(*decodes[0], (5, 0)), (*decodes[1], (4, 5)), decodes[2]]


def test_the_newest_is_preempted_and_catches_up_with_all_its_tokens() -> None:
    scheduler = Scheduler(Limits(blocks=4, context_length=8, block_size=2))
    scheduler.add(Request(0, 3, 4))
    scheduler.add(Request(1, 3, 4))
    shapes = [p.shape for p in served(scheduler)]
    assert shapes == [((3, 0), (3, 0)), ((1, 3), (1, 3)), ((1, 4),), ((1, 5),), ((5, 0),), ((1, 5),)]
    assert scheduler.preemptions == 1


def test_seats_are_limited() -> None:
    scheduler = Scheduler(Limits(blocks=64, context_length=64, max_sequences=2))
    for each in range(5):
        scheduler.add(Request(each, 4, 2))
    assert [len(p.spans) for p in served(scheduler)] == [2, 2, 2, 2, 1, 1]


def test_cancelled_in_flight() -> None:
    scheduler = Scheduler(Limits(blocks=4, context_length=64, block_size=16))
    scheduler.add(Request(0, 20, 4))
    scheduler.add(Request(1, 20, 4))
    pass_ = scheduler.schedule()
    assert pass_ is not None and scheduler.free_blocks == 0
    assert scheduler.cancel(0)
    assert scheduler.free_blocks == 2
    scheduler.add(Request(0, 5, 4))  # the id is used again while the pass runs
    assert scheduler.commit(pass_, PassOutcome({0: [1], 1: [1]})) == []
    check(scheduler.state)
    following = scheduler.schedule()
    assert following is not None
    assert [(s.sequence, s.new, s.context) for s in following.spans] == [(1, 1, 20), (0, 5, 0)]
    assert not scheduler.cancel(5)


@pytest.mark.parametrize(
    ("prompt", "output", "words"),
    [
        (60, 5, "60 prompt and 5 output tokens do not fit in the context length of 64"),
        (40, 10, "need 4 KV blocks of 16; there are 3"),
        (0, 5, "prompt is empty"),
        (5, 0, "0 output tokens"),
        (5, -1, "-1 output tokens"),
    ],
)
def test_refused_at_once(prompt: int, output: int, words: str) -> None:
    scheduler = Scheduler(Limits(blocks=3, context_length=64))
    refusal = scheduler.add(Request(0, prompt, output))
    assert refusal is not None and words in refusal
    assert len(scheduler) == 0 and scheduler.schedule() is None


def test_the_last_token_needs_no_block() -> None:
    scheduler = Scheduler(Limits(blocks=3, context_length=64))
    assert scheduler.add(Request(0, 39, 10)) is None  # 48 tokens in the cache at most
    assert len(served(scheduler)) == 10


@pytest.mark.parametrize("name", ["blocks", "context_length", "max_sequences", "max_tokens", "block_size"])
def test_limits_are_positive(name: str) -> None:
    with pytest.raises(InputError, match=f"{name.replace('_', ' ')} is 0"):
        Limits(**{"blocks": 1, "context_length": 1, name: 0})


def test_an_answer_that_cannot_be_is_refused() -> None:
    scheduler = Scheduler(Limits(blocks=8, context_length=64, max_tokens=8))
    scheduler.add(Request(0, 12, 2))
    pass_ = scheduler.schedule()
    assert pass_ is not None
    with pytest.raises(ValueError, match="kept 1 tokens where at most 0"):
        scheduler.commit(pass_, PassOutcome({0: [1]}))
    scheduler.commit(pass_, PassOutcome({}))
    with pytest.raises(ValueError, match="starts at 0, not at 8"):
        scheduler.commit(pass_, PassOutcome({}))
    with pytest.raises(ValueError, match="already here"):
        scheduler.add(Request(0, 1, 1))


def test_a_verified_draft_keeps_several_tokens() -> None:
    """A row of its own and three drafts, one accepted: two tokens are kept, and the KV of one draft."""
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4))
    scheduler.add(Request(0, 10, 9))
    prefill = scheduler.schedule()
    assert prefill is not None
    scheduler.commit(prefill, PassOutcome({0: [1]}, drafts={0: 3}))
    verify = scheduler.schedule()
    assert verify is not None
    assert [(s.new, s.context, s.logit_rows, len(s.blocks)) for s in verify.spans] == [(4, 10, 4, 4)]
    scheduler.commit(verify, PassOutcome({0: [1, 2]}))
    check(scheduler.state)
    shapes, tables = [], []
    for _ in range(5):
        pass_ = scheduler.schedule()
        assert pass_ is not None
        shapes.append(pass_.shape)
        tables.append(len(pass_.spans[0].blocks))
        scheduler.commit(pass_, PassOutcome({0: [1]}))
        check(scheduler.state)
    assert shapes == [((1, 12 + i),) for i in range(5)]
    assert tables == [4, 4, 4, 4, 5]  # the block taken for the drafts is used, not lost


def test_many_requests_wait() -> None:
    scheduler = Scheduler(Limits(blocks=64, context_length=64, max_sequences=4))
    order, gone = [], set()
    for each in range(300):
        scheduler.add(Request(each, 3, 1))
        if each % 10 == 0:
            pass_ = scheduler.schedule()
            assert pass_ is not None
            order += [span.sequence for span in pass_.spans]
            scheduler.commit(pass_, PassOutcome({span.sequence: [1] for span in pass_.spans}))
        if each % 3 == 0 and scheduler.cancel(each - 5):
            gone.add(each - 5)
        check(scheduler.state)
    order += [span.sequence for p in served(scheduler) for span in p.spans]
    assert len(gone) > 90
    assert order == [each for each in range(300) if each not in gone]
