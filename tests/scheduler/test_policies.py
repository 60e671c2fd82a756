"""Each policy by hand: who is in which pass."""

import pytest
from balanced_books import check
from stub_executor import StubExecutor

from twophase.cost.pass_ import Pass
from twophase.errors import InputError
from twophase.scheduler.moves import admit, grant
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler
from twophase.scheduler.state import HEAP, KNOWN, LEFT, N_RUNNING, N_WAITING, State


def run(scheduler: Scheduler) -> Pass:
    pass_ = scheduler.schedule()
    assert pass_ is not None
    scheduler.commit(pass_, PassOutcome({span.sequence: [1] for span in pass_.spans if span.logit_rows}))
    check(scheduler.state)
    return pass_


def passes(scheduler: Scheduler, count: int) -> list[list[tuple[int, int, int]]]:
    """(sequence, new, context) of each span."""
    return [[(s.sequence, s.new, s.context) for s in run(scheduler).spans] for _ in range(count)]


def roomy(policy: str, budget: int | None = None, seats: int = 64, ageing: int = 64) -> Scheduler:
    limits = Limits(blocks=1000, context_length=500, max_tokens=budget, max_sequences=seats, block_size=4)
    return Scheduler(limits, policy, ageing=ageing)


def test_decode_first_bounds_what_a_decode_waits_for() -> None:
    scheduler = roomy("decode-first", budget=8)
    scheduler.add(Request(0, 2, 9))
    run(scheduler)
    scheduler.add(Request(1, 20, 3))
    scheduler.add(Request(2, 3, 3))
    assert passes(scheduler, 4) == [
        [(0, 1, 2), (1, 7, 0)],
        [(0, 1, 3), (1, 7, 7)],
        [(0, 1, 4), (1, 6, 14), (2, 1, 0)],
        [(0, 1, 5), (1, 1, 20), (2, 2, 1)],
    ]


@pytest.mark.parametrize("policy", ["decode-first", "priority"])
def test_nobody_takes_a_block_that_a_prompt_under_way_will_need(policy: str) -> None:
    """Drafts for which no block is left must not let another prompt in, whose block the first one needs."""
    limits = Limits(blocks=7, context_length=25, max_tokens=8, block_size=4)
    scheduler = Scheduler(limits, policy)
    scheduler.add(Request(0, 2, 20))
    run(scheduler)
    scheduler.add(Request(1, 24, 1))
    pass_ = scheduler.schedule()
    assert pass_ is not None and [(span.sequence, span.new) for span in pass_.spans] == [(0, 1), (1, 7)]
    scheduler.commit(pass_, PassOutcome({0: [1]}, drafts={0: 6}))
    scheduler.add(Request(2, 3, 3))
    pass_ = scheduler.schedule()
    assert pass_ is not None and {span.sequence for span in pass_.spans} == {0, 1}


def test_prefill_first_stops_the_decodes() -> None:
    scheduler = roomy("prefill-first", budget=8)
    scheduler.add(Request(0, 2, 9))
    run(scheduler)
    scheduler.add(Request(1, 20, 3))
    scheduler.add(Request(2, 3, 3))
    scheduler.add(Request(3, 5, 3))
    scheduler.add(Request(4, 1, 3))
    assert passes(scheduler, 6) == [
        [(1, 8, 0)],
        [(1, 8, 8)],
        [(1, 4, 16)],  # nobody joins a prompt that was too long for one pass
        [(2, 3, 0), (3, 5, 0)],
        [(4, 1, 0)],
        [(0, 1, 2), (1, 1, 20), (2, 1, 3), (3, 1, 5), (4, 1, 1)],
    ]


def test_prefill_first_takes_prompts_whole() -> None:
    scheduler = roomy("prefill-first", budget=8)
    scheduler.add(Request(0, 5, 3))
    scheduler.add(Request(1, 4, 3))
    scheduler.add(Request(2, 1, 3))  # would fit beside 0, but 1 is before it
    assert passes(scheduler, 3) == [[(0, 5, 0)], [(1, 4, 0), (2, 1, 0)], [(0, 1, 5), (1, 1, 4), (2, 1, 1)]]


def test_static_batches_run_to_their_end() -> None:
    scheduler = roomy("static", budget=8, seats=2)
    for each, output in enumerate((3, 1, 2, 2)):
        scheduler.add(Request(each, 6, output))
    assert passes(scheduler, 7) == [
        [(0, 6, 0), (1, 2, 0)],
        [(1, 4, 2)],  # decodes begin together
        [(0, 1, 6)],
        [(0, 1, 7)],
        [(2, 6, 0), (3, 2, 0)],
        [(3, 4, 2)],
        [(2, 1, 6), (3, 1, 6)],
    ]


def test_static_reserves_all_that_a_batch_may_produce() -> None:
    scheduler = Scheduler(Limits(blocks=6, context_length=64, block_size=4), "static")
    scheduler.add(Request(0, 4, 9))  # up to 12 tokens in the cache: 3 blocks
    scheduler.add(Request(1, 4, 10))  # 13: 4 blocks, which are not there beside it
    scheduler.add(Request(2, 4, 1))
    sequences = [[span.sequence for span in run(scheduler).spans] for _ in range(10)]
    assert sequences == [[0]] * 9 + [[1, 2]]
    assert scheduler.preemptions == 0


def test_priority_is_the_order_of_admission() -> None:
    scheduler = roomy("priority", seats=1)
    for each, priority in enumerate((1, 2, 0, 1, -3)):
        scheduler.add(Request(each, 4, 1, priority))
    assert [run(scheduler).spans[0].sequence for _ in range(5)] == [4, 2, 0, 3, 1]


def test_the_newest_of_the_lowest_priority_gives_way_and_its_rows_are_given_back() -> None:
    """3 blocks of 4. Request 0 matters least and comes first in the list: it has its row when it must go."""
    scheduler = Scheduler(Limits(blocks=3, context_length=12, max_tokens=4, block_size=4), "priority")
    scheduler.add(Request(0, 3, 5, priority=9))
    assert passes(scheduler, 1) == [[(0, 3, 0)]]
    scheduler.add(Request(1, 3, 5, priority=1))
    assert passes(scheduler, 1) == [[(0, 1, 3), (1, 3, 0)]]
    scheduler.add(Request(2, 2, 4, priority=0))
    # 0 takes the last block for its fifth token
    assert passes(scheduler, 1) == [[(0, 1, 4), (1, 1, 3)]]
    assert scheduler.free_blocks == 0
    # 1 needs a block for its fifth token: 0 goes, though it had its row already; nobody is admitted
    assert passes(scheduler, 1) == [[(1, 1, 4)]]
    assert scheduler.preempted(0) == 1
    # 2 outranks it and is next; then 0 with all that it had known
    assert passes(scheduler, 1) == [[(1, 1, 5), (2, 2, 0)]]
    assert passes(scheduler, 2) == [[(1, 1, 6), (2, 1, 2)], [(2, 1, 3), (0, 3, 0)]]
    # 2 takes the last block for its fifth token: 0 can't go on, and begins anew when 2 is done
    assert passes(scheduler, 2) == [[(2, 1, 4)], [(0, 4, 0)]]
    assert passes(scheduler, 2) == [[(0, 2, 4)], [(0, 1, 6)]]
    assert len(scheduler) == 0


def test_whoever_outranks_nobody_gives_way_itself_and_the_rest_goes_on() -> None:
    scheduler = Scheduler(Limits(blocks=2, context_length=8, block_size=4), "priority")
    scheduler.add(Request(0, 4, 3, priority=5))
    scheduler.add(Request(1, 2, 3, priority=1))
    assert passes(scheduler, 2) == [[(1, 2, 0), (0, 4, 0)], [(1, 1, 2)]]
    assert scheduler.preempted(0) == 1
    assert passes(scheduler, 2) == [[(1, 1, 3)], [(0, 5, 0)]]


@pytest.mark.parametrize("policy", ["decode-first", "priority", "shortest-first"])
def test_a_preempted_request_resumes_before_fresh_ones(policy: str) -> None:
    """vllm #41951."""
    scheduler = Scheduler(Limits(blocks=4, context_length=8, block_size=2), policy)
    scheduler.add(Request(0, 3, 4))
    scheduler.add(Request(1, 3, 4))
    run(scheduler)
    run(scheduler)
    scheduler.add(Request(2, 1, 1))
    assert passes(scheduler, 4) == [[(0, 1, 4)], [(0, 1, 5)], [(1, 5, 0), (2, 1, 0)], [(1, 1, 5)]]


def test_shortest_first_and_the_budget_between_prompts() -> None:
    scheduler = roomy("shortest-first", budget=8, ageing=0)
    scheduler.add(Request(0, 30, 2))
    assert passes(scheduler, 1) == [[(0, 8, 0)]]  # 22 lack
    scheduler.add(Request(1, 25, 2))
    scheduler.add(Request(2, 10, 2))
    assert passes(scheduler, 4) == [
        [(2, 8, 0)],
        [(2, 2, 8), (0, 6, 8)][::-1],
        [(2, 1, 10), (0, 7, 14)],
        [(0, 8, 21)],
    ]
    assert passes(scheduler, 2) == [[(0, 1, 29), (1, 7, 0)], [(0, 1, 30), (1, 7, 7)]]


@pytest.mark.parametrize(("ageing", "passes_waited"), [(0, None), (5, 4), (20, 1)])
def test_ageing_bounds_how_long_shorter_ones_pass_by(ageing: int, passes_waited: int | None) -> None:
    """A prompt of 20 beside a stream of 4s: after n passes it counts 20 - ageing * n."""
    scheduler = roomy("shortest-first", budget=4, ageing=ageing, seats=1)
    scheduler.add(Request(0, 20, 1))
    waited = 0
    for each in range(1, 30):
        scheduler.add(Request(each, 4, 1))
        if run(scheduler).spans[0].sequence == 0:
            break
        waited += 1
    assert waited == (29 if passes_waited is None else passes_waited)


def verifying(scheduler: Scheduler, kept: int = 1, drafts: int = 0) -> list[tuple[int, int, int, int]]:
    """A pass after which all who decode ask for drafts: (sequence, new, context, rows of logits)."""
    pass_ = scheduler.schedule()
    assert pass_ is not None
    ids = [span.sequence for span in pass_.spans if span.logit_rows]
    scheduler.commit(pass_, PassOutcome(dict.fromkeys(ids, [1] * kept), drafts=dict.fromkeys(ids, drafts)))
    check(scheduler.state)
    return [(s.sequence, s.new, s.context, s.logit_rows) for s in pass_.spans]


def test_drafts_take_what_decodes_leave_of_the_budget() -> None:
    scheduler = roomy("decode-first", budget=6)
    for each in range(3):
        scheduler.add(Request(each, 2, 9))
    verifying(scheduler, drafts=2)
    assert verifying(scheduler, drafts=2) == [(0, 3, 2, 3), (1, 2, 2, 2), (2, 1, 2, 1)]
    scheduler.add(Request(3, 20, 9))
    # half of the three rows that are left is the prompt's
    assert verifying(scheduler, drafts=2) == [(0, 2, 3, 2), (1, 1, 3, 1), (2, 1, 3, 1), (3, 2, 0, 0)]
    assert verifying(scheduler) == [(0, 2, 4, 2), (1, 1, 4, 1), (2, 1, 4, 1), (3, 2, 2, 0)]
    assert verifying(scheduler) == [(0, 1, 5, 1), (1, 1, 5, 1), (2, 1, 5, 1), (3, 3, 4, 0)]


def test_of_a_cut_verification_no_more_is_kept_than_was_verified() -> None:
    scheduler = roomy("decode-first", budget=3)
    scheduler.add(Request(0, 2, 9))
    verifying(scheduler, drafts=5)
    pass_ = scheduler.schedule()
    assert pass_ is not None and pass_.spans[0].logit_rows == 3
    with pytest.raises(ValueError, match="kept 4 tokens where at most 3 can be"):
        scheduler.commit(pass_, PassOutcome({0: [1] * 4}))
    scheduler.commit(pass_, PassOutcome({0: [1] * 3}))
    assert passes(scheduler, 1) == [[(0, 1, 5)]]


def test_drafts_are_cut_where_output_and_blocks_end() -> None:
    scheduler = Scheduler(Limits(blocks=3, context_length=64, block_size=4))
    scheduler.add(Request(0, 3, 3))
    scheduler.add(Request(1, 3, 4))
    pass_ = scheduler.schedule()
    assert pass_ is not None
    scheduler.commit(pass_, PassOutcome({0: [1], 1: [1]}, drafts={0: 9, 1: 9}))
    pass_ = scheduler.schedule()
    assert pass_ is not None
    # 0 may still produce 2: a token and one draft, which takes the third block; 1 has room for no draft
    assert [(s.new, s.logit_rows) for s in pass_.spans] == [(2, 2), (1, 1)]
    assert scheduler.preemptions == 0


def test_drafts_leave_a_prompt_under_way_its_blocks() -> None:
    """6 blocks: the prompt of 15 has 2 and takes 1, its last is left for it, and 2 drafts fit beside."""
    scheduler = Scheduler(Limits(blocks=6, context_length=64, max_tokens=8, block_size=4))
    scheduler.add(Request(0, 4, 12))
    verifying(scheduler)
    scheduler.add(Request(1, 15, 1))
    assert verifying(scheduler, drafts=7) == [(0, 1, 4, 1), (1, 7, 0, 0)]
    assert verifying(scheduler) == [(0, 3, 5, 3), (1, 4, 7, 0)]
    assert scheduler.free_blocks == 1
    assert verifying(scheduler) == [(0, 1, 6, 1), (1, 4, 11, 1)]
    assert scheduler.preemptions == 0


def test_rows_of_whoever_has_to_go_are_given_to_others() -> None:
    """Request 0 has its row in the last pass, then goes so that 1 has room; the prompt of 2 gets the row."""
    scheduler = Scheduler(Limits(blocks=5, context_length=20, max_tokens=4, block_size=4), "priority")
    scheduler.add(Request(0, 1, 9, priority=9))
    assert passes(scheduler, 1) == [[(0, 1, 0)]]
    scheduler.add(Request(1, 1, 9, priority=0))
    scheduler.add(Request(2, 12, 1, priority=1))
    assert passes(scheduler, 5) == [
        [(0, 1, 1), (1, 1, 0), (2, 2, 0)],
        [(0, 1, 2), (1, 1, 1), (2, 2, 2)],
        [(0, 1, 3), (1, 1, 2), (2, 2, 4)],
        [(0, 1, 4), (1, 1, 3), (2, 2, 6)],  # 0 takes the last block
        [(1, 1, 4), (2, 3, 8)],
    ]
    assert scheduler.preempted(0) == 1


def test_a_budget_below_the_decodes_serves_the_oldest() -> None:
    scheduler = roomy("decode-first", budget=2)
    for each in range(3):
        scheduler.add(Request(each, 1, 3))
    assert passes(scheduler, 4) == [
        [(0, 1, 0), (1, 1, 0)],
        [(0, 1, 1), (1, 1, 1)],
        [(0, 1, 2), (1, 1, 2)],
        [(2, 1, 0)],
    ]


def test_a_policy_of_your_own() -> None:
    """Newest first, one prompt a pass, everyone decodes when nobody waits."""

    def newest_first(state: State) -> None:
        waiting = state.slots[: state.counts[N_WAITING], HEAP]
        if len(waiting):
            slot = max(waiting, key=lambda each: scheduler._ids[each])
            admit(state, slot, 0)
            grant(state, slot, state.slots[slot, KNOWN])
        else:
            for slot in state.seats[: state.counts[N_RUNNING], 0]:
                grant(state, slot, 1)

    scheduler = Scheduler(Limits(blocks=100, context_length=100, block_size=4), newest_first)
    for each in range(3):
        scheduler.add(Request(each, 5, 2))
    assert passes(scheduler, 4) == [
        [(2, 5, 0)],
        [(1, 5, 0)],
        [(0, 5, 0)],
        [(2, 1, 5), (1, 1, 5), (0, 1, 5)],
    ]


def test_a_policy_that_grants_too_much_is_told() -> None:
    def greedy(state: State) -> None:
        slot = state.slots[0, HEAP]
        admit(state, slot, 0)
        grant(state, slot, state.counts[LEFT] + 1)

    scheduler = Scheduler(Limits(blocks=100, context_length=100, max_tokens=8), greedy)
    scheduler.add(Request(0, 50, 2))
    with pytest.raises(ValueError, match="grants 1 rows beyond 8"):
        scheduler.schedule()


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(
        InputError, match=r"no policy 'decode'; there are decode-first, .*did you mean decode-first"
    ):
        Scheduler(Limits(blocks=1, context_length=1), "decode")


def test_throughput_recovers_after_a_preemption() -> None:
    """sglang #26248: the pass after room was made, everyone is back."""
    scheduler = Scheduler(Limits(blocks=10, context_length=40, block_size=4))
    executor = StubExecutor(4)
    for each in range(3):
        scheduler.add(Request(each, 10, 12 if each else 3))
    sizes = []
    while (pass_ := scheduler.schedule()) is not None:
        scheduler.commit(pass_, executor.run(pass_))
        sizes.append(len(pass_.spans))
    assert scheduler.preemptions <= 1
    assert sizes[:3] == [3, 3, 3] and set(sizes[4:9]) == {2}


def test_vllm_lets_the_newest_give_way_for_drafts() -> None:
    limits = Limits(blocks=4, context_length=16, max_tokens=16, block_size=4)
    scheduler = Scheduler(limits, "vllm")
    scheduler.add(Request(0, 7, 9))
    scheduler.add(Request(1, 7, 9))
    pass_ = scheduler.schedule()
    assert pass_ is not None and len(pass_.spans) == 2
    scheduler.commit(pass_, PassOutcome({0: [1], 1: [1]}, drafts={0: 3}))
    pass_ = scheduler.schedule()  # rows 7 to 10 of the first need a third block
    assert pass_ is not None and [(s.sequence, s.new) for s in pass_.spans] == [(0, 4)]
    assert scheduler.preempted(1) == 1


def test_sglang_admits_who_fits_with_what_it_will_produce() -> None:
    limits = Limits(blocks=12, context_length=48, max_tokens=16, block_size=4)
    scheduler = Scheduler(limits, "sglang")
    scheduler.add(Request(0, 8, 20))  # 7 blocks in the end; alone it is let in at once
    scheduler.add(Request(1, 8, 20))  # 7 beside 2 and 70 % of 20 tokens: more than 12
    assert passes(scheduler, 2) == [[(0, 8, 0)], [(0, 1, 8)]]
    rest = passes(scheduler, 19)
    assert rest[-1] == [(1, 8, 0)] and all(len(each) == 1 for each in rest)  # until the first has left


def test_sglang_retracts_who_has_the_fewest_tokens() -> None:
    scheduler = Scheduler(Limits(blocks=20, context_length=48, max_tokens=16, block_size=4), "sglang")
    scheduler.add(Request(0, 4, 40))
    run(scheduler)
    # 11 blocks beside 7 for 70 % of 39 tokens, and 1 for the next row; in the end 22 would be needed
    scheduler.add(Request(1, 4, 40))
    alone = []
    while scheduler.waiting + scheduler.running:
        alone.append({span.sequence for span in run(scheduler).spans})
        if 0 in scheduler and 1 in scheduler:
            assert scheduler.preempted(0) == 0
    assert scheduler.preemptions == 1
    first_alone = alone.index({0})  # 0 goes on, and 1 comes back when there is room for all that it lacks
    assert first_alone > 30 and {1} in alone[first_alone:]
