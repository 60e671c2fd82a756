"""What is found again, what is evicted first, and what must not be found. Rules of vLLM V1's block pool."""

import pytest
from balanced_books import check, free_in_order
from hypothesis import given
from hypothesis import strategies as st
from stub_executor import StubExecutor

from twophase.cost.pass_ import Pass
from twophase.scheduler.pool import find, forget_key, give_key, take
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler
from twophase.scheduler.state import new_state


def run(scheduler: Scheduler, kept: dict[int, int] | None = None) -> Pass:
    """One pass, in which everyone who wants logits keeps a token."""
    pass_ = scheduler.schedule()
    assert pass_ is not None
    scheduler.commit(pass_, PassOutcome({span.sequence: [1] for span in pass_.spans if span.logit_rows}))
    check(scheduler.state)
    return pass_


def finish(scheduler: Scheduler, request: Request) -> Pass:
    assert scheduler.add(request) is None
    first = run(scheduler)
    while request.id in scheduler:
        run(scheduler)
    return first


def shapes(pass_: Pass) -> list[tuple[int, int, int]]:
    return [(span.sequence, span.new, span.context) for span in pass_.spans]


def test_full_blocks_are_found_again_and_counted() -> None:
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4))
    keys = (11, 12, 13)
    assert shapes(finish(scheduler, Request(0, 14, 1, block_keys=keys))) == [(0, 14, 0)]
    assert scheduler.free_blocks == 8  # cached blocks are free
    first = finish(scheduler, Request(1, 14, 1, block_keys=keys))
    assert shapes(first) == [(1, 2, 12)]
    assert first.spans[0].blocks[:3] == (0, 1, 2)
    assert (scheduler.prefix_queries, scheduler.prefix_hits) == (28, 12)
    # another block in between, and what comes after is not looked for
    assert shapes(finish(scheduler, Request(2, 14, 1, block_keys=(11, 99, 13)))) == [(2, 10, 4)]


@pytest.mark.parametrize("prompt", [8, 16, 32])
def test_of_a_prompt_that_is_all_there_a_block_is_computed(prompt: int) -> None:
    """A prompt of whole blocks, all cached: the last token's logits are still needed."""
    scheduler = Scheduler(Limits(blocks=16, context_length=64, block_size=4))
    keys = tuple(range(prompt // 4))
    finish(scheduler, Request(0, prompt, 1, block_keys=keys))
    for each in range(1, 4):
        assert shapes(finish(scheduler, Request(each, prompt, 1, block_keys=keys))) == [(each, 4, prompt - 4)]


def test_requests_of_one_pass_share_what_it_computes() -> None:
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4))
    for each in range(3):
        scheduler.add(Request(each, 11, 2, block_keys=(5, 6)))
    first = run(scheduler)
    assert shapes(first) == [(0, 11, 0), (1, 3, 8), (2, 3, 8)]
    tables = [span.blocks for span in first.spans]
    assert {table[:2] for table in tables} == {tables[0][:2]} and len({table[2] for table in tables}) == 3
    assert scheduler.used_blocks == 5
    assert scheduler.cancel(0)
    check(scheduler.state)
    assert scheduler.used_blocks == 4  # the others still hold what it computed
    assert [span.blocks[:2] for span in run(scheduler).spans] == [tables[0][:2]] * 2


def test_a_chunk_that_ends_within_a_block_does_not_give_it_away() -> None:
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4, max_tokens=6))
    scheduler.add(Request(0, 8, 2, block_keys=(1, 2)))
    assert shapes(run(scheduler)) == [(0, 6, 0)]
    assert find(scheduler.state, 1) >= 0 and find(scheduler.state, 2) < 0
    run(scheduler)
    assert find(scheduler.state, 2) >= 0


def test_output_is_found_by_the_next_turn() -> None:
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4))
    scheduler.add(Request(0, 6, 8, block_keys=(1,)))
    keys = {8: 2, 12: 3}
    for known in range(7, 15):
        pass_ = scheduler.schedule()
        assert pass_ is not None
        filled = {0: [keys[known]]} if known in keys else {}
        scheduler.commit(pass_, PassOutcome({0: [1]}, block_keys=filled))
        check(scheduler.state)
    assert 0 not in scheduler
    assert shapes(finish(scheduler, Request(1, 14, 1, block_keys=(1, 2, 3)))) == [(1, 2, 12)]


def test_a_verified_draft_fills_a_block_at_once() -> None:
    """8 + 1 known, 3 drafts accepted and one more token: 12 tokens lie in the cache, 13 are known."""
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4))
    scheduler.add(Request(0, 8, 5, block_keys=(1, 2)))
    pass_ = scheduler.schedule()
    assert pass_ is not None
    scheduler.commit(pass_, PassOutcome({0: [1]}, drafts={0: 3}))
    pass_ = scheduler.schedule()
    assert pass_ is not None and shapes(pass_) == [(0, 4, 8)] and pass_.spans[0].logit_rows == 4
    assert scheduler.commit(pass_, PassOutcome({0: [1] * 4}, block_keys={0: [3]})) == [0]
    check(scheduler.state)
    assert find(scheduler.state, 3) >= 0


def test_a_rejected_draft_leaves_no_key() -> None:
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4))
    scheduler.add(Request(0, 7, 9, block_keys=(1,)))
    pass_ = scheduler.schedule()
    assert pass_ is not None
    scheduler.commit(pass_, PassOutcome({0: [1]}, drafts={0: 3}, block_keys={0: [2]}))
    pass_ = scheduler.schedule()
    assert pass_ is not None and shapes(pass_) == [(0, 4, 7)]  # 7..10: the block of 8..11 isn't full
    scheduler.commit(pass_, PassOutcome({0: [1]}))
    check(scheduler.state)
    assert scheduler.state.blocks[:-1, 2].astype(bool).sum() == 2


def test_the_end_of_the_least_recently_used_is_evicted_first() -> None:
    scheduler = Scheduler(Limits(blocks=6, context_length=24, block_size=4))
    finish(scheduler, Request(0, 9, 1, block_keys=(1, 2)))  # blocks 0, 1 keyed and 2 not
    finish(scheduler, Request(1, 5, 1, block_keys=(3,)))  # block 2 keyed, 3 not
    assert free_in_order(scheduler.state).tolist() == [3, 4, 5, 1, 0, 2]
    finish(scheduler, Request(2, 9, 1, block_keys=(1, 2)))  # touched: 0 and 1 are the newest again
    assert free_in_order(scheduler.state).tolist() == [3, 4, 5, 2, 1, 0]
    finish(scheduler, Request(3, 13, 1, block_keys=(7, 8, 9)))  # takes 3, 4, 5 and evicts 2
    assert find(scheduler.state, 3) < 0
    assert [find(scheduler.state, key) for key in (1, 2, 7, 8, 9)] == [0, 1, 3, 4, 5]
    assert free_in_order(scheduler.state).tolist() == [2, 1, 0, 5, 4, 3]


def test_a_preempted_request_finds_its_own_blocks() -> None:
    """And is planned anew by what it finds, not by what it had (nano-vllm #211)."""
    scheduler = Scheduler(Limits(blocks=4, context_length=16, block_size=2))
    scheduler.add(Request(0, 3, 4, block_keys=(1,)))
    scheduler.add(Request(1, 3, 4, block_keys=(5,)))
    seen = [shapes(run(scheduler)) for _ in range(4)]
    assert seen == [[(0, 3, 0), (1, 3, 0)], [(0, 1, 3), (1, 1, 3)], [(0, 1, 4)], [(0, 1, 5)]]
    # 1 had 4 tokens in 2 blocks; the first was full and keyed, the other is taken by 0
    assert shapes(run(scheduler)) == [(1, 3, 2)]
    assert scheduler.preemptions == 1 and scheduler.preempted(1) == 1
    assert scheduler.prefix_hits == 0  # its own work isn't counted as another's


def test_whoever_loses_its_row_does_not_give_the_block_that_it_was_to_fill() -> None:
    """Request 0's eighth token fills its second block; it has the row, and goes so that 1 has room.

    A third block that rejected drafts had is the one that 1 takes, so the second stays as it is.
    """
    scheduler = Scheduler(Limits(blocks=5, context_length=20, block_size=4), "priority")
    scheduler.add(Request(0, 5, 9, priority=9, block_keys=(1,)))
    run(scheduler)
    scheduler.add(Request(1, 7, 9, priority=0, block_keys=(5,)))
    pass_ = scheduler.schedule()
    assert pass_ is not None and shapes(pass_) == [(0, 1, 5), (1, 7, 0)]
    scheduler.commit(pass_, PassOutcome({0: [1], 1: [1]}, drafts={0: 3}))
    pass_ = scheduler.schedule()
    assert pass_ is not None and shapes(pass_) == [(0, 4, 6), (1, 1, 7)]
    scheduler.commit(pass_, PassOutcome({0: [1], 1: [1]}, block_keys={0: [2]}))
    assert scheduler.free_blocks == 0 and find(scheduler.state, 1) >= 0
    assert shapes(run(scheduler)) == [(1, 1, 8)]
    assert scheduler.preempted(0) == 1 and scheduler.free_blocks == 2
    assert find(scheduler.state, 1) >= 0 and find(scheduler.state, 2) < 0


def test_whoever_stays_when_a_pass_fails_had_no_part_in_it() -> None:
    """A static batch: 1 is in it, but not in the pass that was to fill the blocks of their common prefix."""
    scheduler = Scheduler(Limits(blocks=16, context_length=64, max_tokens=8, block_size=4), "static")
    scheduler.add(Request(0, 8, 2, block_keys=(1, 2)))
    scheduler.add(Request(1, 9, 2, block_keys=(1, 2)))
    pass_ = scheduler.schedule()
    assert pass_ is not None and shapes(pass_) == [(0, 8, 0)] and scheduler.running == 2
    assert scheduler.abandon(pass_) == [0]
    check(scheduler.state)
    assert shapes(run(scheduler)) == [(1, 8, 0)]


def test_of_two_blocks_alike_the_one_in_use_is_found() -> None:
    """The last block of a prompt is computed again; the older copy is the next to be taken."""
    scheduler = Scheduler(Limits(blocks=4, context_length=16, block_size=4))
    finish(scheduler, Request(0, 8, 1, block_keys=(1, 2)))
    assert [find(scheduler.state, key) for key in (1, 2)] == [0, 1]
    scheduler.add(Request(1, 8, 2, block_keys=(1, 2)))
    run(scheduler)
    assert [find(scheduler.state, key) for key in (1, 2)] == [0, 2]
    assert free_in_order(scheduler.state).tolist() == [1, 3]
    scheduler.add(Request(2, 8, 2, block_keys=(1, 2)))
    run(scheduler)
    assert find(scheduler.state, 2) == 2  # that one is in use


def test_keys_go_astray_nowhere() -> None:
    """A request without keys for its prompt can't give any for its output: they would stand for others."""
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4))
    scheduler.add(Request(0, 7, 9))
    pass_ = scheduler.schedule()
    assert pass_ is not None
    scheduler.commit(pass_, PassOutcome({0: [1]}, block_keys={0: [2]}))
    run(scheduler)
    assert find(scheduler.state, 2) < 0
    pass_ = scheduler.schedule()
    assert pass_ is not None
    with pytest.raises(ValueError, match="1 block keys where 0 blocks were filled"):
        scheduler.commit(pass_, PassOutcome({0: [1]}, block_keys={0: [2]}))


def test_it_can_be_switched_off() -> None:
    scheduler = Scheduler(Limits(blocks=8, context_length=64, block_size=4, prefix_cache=False))
    for each in range(2):
        assert shapes(finish(scheduler, Request(each, 9, 1, block_keys=(1, 2)))) == [(each, 9, 0)]
    assert scheduler.prefix_queries == scheduler.prefix_hits == 0


def test_a_pass_that_failed_leaves_nothing_to_find() -> None:
    scheduler = Scheduler(Limits(blocks=16, context_length=64, block_size=4))
    finish(scheduler, Request(0, 9, 1, block_keys=(1, 2)))
    scheduler.add(Request(1, 17, 9, block_keys=(1, 2, 3, 4)))
    scheduler.add(Request(2, 17, 9, block_keys=(1, 2, 3, 4)))
    pass_ = scheduler.schedule()
    assert pass_ is not None and shapes(pass_) == [(1, 9, 8), (2, 1, 16)]
    scheduler.cancel(1)
    scheduler.add(Request(3, 17, 9, block_keys=(1, 2, 3, 4)))
    assert scheduler.abandon(pass_) == [2]
    check(scheduler.state)
    assert scheduler.used_blocks == 0 and len(scheduler) == 1
    assert shapes(run(scheduler)) == [(3, 9, 8)]  # what was there before still is


def test_a_long_queue_of_keys_is_kept_apart() -> None:
    scheduler = Scheduler(Limits(blocks=400, context_length=400, max_sequences=3, block_size=4))
    executor = StubExecutor(4)
    for each in range(90):
        prompt = 1 + each * 37 % 90
        keys = executor.begin(each, prompt, shared=each % 3, shared_tokens=prompt // 2)
        scheduler.add(Request(each, prompt, 1 + each % 20, block_keys=keys))
        if each % 5 == 0:
            scheduler.cancel(each - 3)
            check(scheduler.state)
    while (pass_ := scheduler.schedule()) is not None:
        scheduler.commit(pass_, executor.run(pass_))
        check(scheduler.state)
    assert scheduler.prefix_hits > 800
    assert len(scheduler.state.arena) < 90 * 40


@given(st.lists(st.tuples(st.booleans(), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 40)), max_size=60))
def test_the_table_is_a_dictionary(moves: list[tuple[bool, int]]) -> None:
    state = new_state(Limits(blocks=32, context_length=8), slots=1, ageing=0)
    state.counts[7] = 1
    blocks: dict[int, int] = {}
    for add, key in moves:
        if not add and key in blocks:
            forget_key(state, blocks.pop(key))
        elif add and key not in blocks and len(blocks) < 30 and state.counts[3] > 0:
            take(state, state.table[0], 0, 1)
            blocks[key] = int(state.table[0, 0])
            give_key(state, blocks[key], key)
        assert {each: find(state, each) for each in blocks} == blocks
        assert key in blocks or find(state, key) == -1
