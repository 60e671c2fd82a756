import time
from dataclasses import replace
from typing import NamedTuple

import pytest
from balanced_books import check
from hypothesis import given, settings
from hypothesis import strategies as st
from stub_executor import StubExecutor

from twophase.cost.pass_ import Pass
from twophase.scheduler.clock import RealClock, VirtualClock
from twophase.scheduler.drive import PassFailed, drive, step, take_in
from twophase.scheduler.log import Log
from twophase.scheduler.moves import decodes
from twophase.scheduler.policy import POLICIES
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler


def price(pass_: Pass) -> tuple[float, float]:
    return 2.0 * pass_.rows, 3.0 * pass_.rows


class Workload(NamedTuple):
    limits: Limits
    arrivals: list[tuple[float, Request]]
    stop_after: dict[int, int]
    cancels: dict[int, list[int]]  # who in (even) or after (odd) which pass
    drafts: int  # asked for by every sequence after every token
    shared: dict[int, tuple[int, int]]  # by request: which beginning it shares, and how much of it


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    block_size = draw(st.sampled_from([1, 2, 3, 16]))
    limits = Limits(
        blocks=-(-draw(st.integers(20, 80)) // block_size),
        context_length=draw(st.integers(20, 60)),
        max_sequences=draw(st.integers(1, 6)),
        max_tokens=draw(st.none() | st.integers(1, 40)),
        block_size=block_size,
        prefix_cache=draw(st.booleans()),
    )
    count = draw(st.integers(1, 12))
    times = sorted(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
    requests = [
        Request(i, draw(st.integers(1, 30)), draw(st.integers(1, 20)), draw(st.integers(0, 2)))
        for i in range(count)
    ]
    stops = draw(st.dictionaries(st.integers(0, count - 1), st.integers(1, 10)))
    stop_after = {i: requests[i].prompt_tokens + n for i, n in stops.items()}
    cancels = draw(
        st.dictionaries(st.integers(0, 60), st.lists(st.integers(0, count - 1), max_size=2), max_size=6)
    )
    shared = {r.id: (draw(st.integers(0, 1)), draw(st.integers(0, r.prompt_tokens))) for r in requests}
    arrivals = [(float(t), r) for t, r in zip(times, requests, strict=True)]
    return Workload(limits, arrivals, stop_after, cancels, draw(st.sampled_from([0, 0, 1, 3])), shared)


def check_pass(pass_: Pass, limits: Limits) -> None:
    spans = pass_.spans
    assert pass_.rows <= limits.budget
    assert len(spans) <= limits.max_sequences
    assert len({span.sequence for span in spans}) == len(spans)
    assert all(span.new >= 1 for span in spans)
    assert all(span.logit_rows <= span.new for span in spans)
    assert all(len(s.blocks) >= -(-(s.context + s.new) // limits.block_size) for s in spans)


def check_decode_first(pass_: Pass, decoding: set[int], limits: Limits) -> None:
    """Nobody who decodes waits where the budget has a row for each, and prompts come behind them."""
    assert all(span.logit_rows for span in pass_.spans[:-1])  # only the last may be cut by the budget
    spans = [span.sequence for span in pass_.spans]
    if len(decoding) <= limits.budget:
        assert decoding == set(spans[: len(decoding)])


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=60, deadline=None)
@given(workload=workloads())
def test_random_workloads(policy: str, workload: Workload) -> None:
    limits, arrivals, stop_after, cancels, drafts, shared = workload
    scheduler, log = Scheduler(limits, policy), Log(price)
    cancelled: set[int] = set()

    def cancel_some(moment: int) -> None:
        for each in cancels.get(moment, []):
            if scheduler.cancel(each):
                cancelled.add(each)

    executor = StubExecutor(
        limits.block_size,
        stop_after,
        during=lambda: cancel_some(2 * len(executor.passes)),  # in flight
        drafts=lambda sequence, known: drafts,
    )
    arrivals = [
        (t, replace(r, block_keys=executor.begin(r.id, r.prompt_tokens, *shared[r.id]))) for t, r in arrivals
    ]
    produced: dict[int, list[int]] = {request.id: [] for _, request in arrivals}
    finished: list[int] = []
    decoding: set[int] = set()
    preemptions = 0
    for progress in drive(arrivals, scheduler, executor, VirtualClock(), log):
        pass_ = executor.passes[-1]
        assert len(executor.passes) < 3000
        assert not cancelled & progress.tokens.keys()
        check_pass(pass_, limits)
        if scheduler.preemptions == preemptions and policy in {"decode-first", "priority", "shortest-first"}:
            check_decode_first(pass_, decoding, limits) if policy != "shortest-first" else None
            assert len(decoding) > limits.budget or decoding <= {span.sequence for span in pass_.spans}
        if policy == "prefill-first" and decoding & {span.sequence for span in pass_.spans}:
            assert {span.sequence for span in pass_.spans} <= decoding
        preemptions = scheduler.preemptions
        check(scheduler.state)
        for sequence, tokens in progress.tokens.items():
            produced[sequence].extend(tokens)
        finished.extend(progress.finished)
        cancel_some(2 * len(executor.passes) + 1)
        check(scheduler.state)
        decoding = {each for each in produced if decodes_now(scheduler, each)}

    # the books are closed
    assert scheduler.free_blocks == limits.blocks and scheduler.used_blocks == 0
    assert len(scheduler) == 0 and not log.open
    # one outcome each
    assert [record.request for record in log.requests] == [request.id for _, request in arrivals]
    outcomes = {record.request: record.outcome for record in log.requests}
    assert {i for i, o in outcomes.items() if o == "cancelled"} == cancelled
    assert sorted(finished) == sorted(i for i, o in outcomes.items() if o == "finished")
    # every token once and in order, however often it was preempted
    for (arrival, request), record in zip(arrivals, log.requests, strict=True):
        fits = request.prompt_tokens + request.max_output <= limits.context_length and (
            request.prompt_tokens + request.max_output - 1 <= limits.blocks * limits.block_size
        )
        assert (record.outcome == "rejected") == (not fits)
        assert bool(record.reason) == (record.outcome != "finished")
        due = min(request.max_output, max(1, stop_after.get(request.id, 10**6) - request.prompt_tokens))
        expected = [1000 * request.id + request.prompt_tokens + i for i in range(due)]
        if record.outcome == "finished":
            assert produced[request.id] == expected
        else:
            assert produced[request.id] == expected[: len(produced[request.id])]
        assert len(record.token_s) == len(produced[request.id])
        assert record.token_s == sorted(record.token_s)
        assert record.accepted_tokens == len(record.token_s) - len(set(record.token_s))
        assert record.accepted_tokens <= record.drafted_tokens
        if record.token_s:
            assert record.first_scheduled_s is not None
            assert arrival <= record.first_scheduled_s < record.token_s[0]
    assert [record.shape for record in log.passes] == [pass_.shape for pass_ in executor.passes]
    assert sum(record.preemptions for record in log.requests) == scheduler.preemptions
    assert sum(record.cached_tokens for record in log.requests) == scheduler.prefix_hits
    assert scheduler.preemptions == 0 or policy != "static"
    if policy == "decode-first":  # first come, first token
        firsts = [record.token_s[0] for record in log.requests if record.token_s]
        assert firsts == sorted(firsts)
        # each pass moves the oldest on, and nothing ever sets the oldest back
        served = [request for _, request in arrivals if outcomes[request.id] != "rejected"]
        assert len(log.passes) <= sum(request.prompt_tokens + request.max_output for request in served)


def decodes_now(scheduler: Scheduler, request_id: int) -> bool:
    return request_id in scheduler and decodes(scheduler.state, scheduler._slots[request_id])


def test_records_of_two_requests_on_a_virtual_clock() -> None:
    log = Log(price)
    arrivals = [(0.5, Request(1, 10, 2)), (2.0, Request(2, 4, 1))]
    scheduler = Scheduler(Limits(blocks=8, context_length=32))
    steps = list(drive(arrivals, scheduler, StubExecutor(16), VirtualClock(), log))
    # 1 arrives at 0.5 and runs to 1.5, 2.5; 2 arrives at 2.0, during the second pass, and runs from 2.5
    assert [step.tokens for step in steps] == [{1: [1010]}, {1: [1011]}, {2: [2004]}]
    assert [step.finished for step in steps] == [[], [1], [2]]
    first, second = log.requests
    assert (first.arrival_s, first.first_scheduled_s, first.token_s) == (0.5, 0.5, [1.5, 2.5])
    assert (second.arrival_s, second.first_scheduled_s, second.token_s) == (2.0, 2.5, [3.5])
    assert second.ttft_s == 1.5
    assert [(p.flops, p.bytes, p.started_s, p.seconds) for p in log.passes] == [
        (20.0, 30.0, 0.5, 1.0),
        (2.0, 3.0, 1.5, 1.0),
        (8.0, 12.0, 2.5, 1.0),
    ]


def test_closing_the_generator_cancels_all() -> None:
    log = Log(price)
    scheduler = Scheduler(Limits(blocks=8, context_length=64, max_sequences=1))
    arrivals = [(0.0, Request(1, 10, 9)), (0.0, Request(2, 10, 9)), (99.0, Request(3, 10, 9))]
    run = drive(arrivals, scheduler, StubExecutor(16), VirtualClock(), log)
    next(run)
    run.close()
    assert [(r.request, r.outcome) for r in log.requests] == [(1, "cancelled"), (2, "cancelled")]
    assert scheduler.free_blocks == 8 and len(scheduler) == 0


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (KeyboardInterrupt(), "cancelled", "the run was stopped"),
        (MemoryError("no room"), "failed", "MemoryError: no room"),
    ],
)
def test_a_pass_that_raises(error: BaseException, outcome: str, reason: str) -> None:
    def fail() -> None:
        raise error

    log = Log(price)
    scheduler = Scheduler(Limits(blocks=8, context_length=64))
    with pytest.raises(type(error)):
        list(drive([(0.0, Request(1, 10, 9))], scheduler, StubExecutor(16, during=fail), VirtualClock(), log))
    assert [(r.outcome, r.reason) for r in log.requests] == [(outcome, reason)]
    assert scheduler.free_blocks == 8 and len(scheduler) == 0


def test_stopping_without_a_token_is_empty() -> None:
    class Mute:
        def run(self, pass_: Pass) -> PassOutcome:
            return PassOutcome({}, stopped={1})

    log = Log(price)
    list(
        drive(
            [(0.0, Request(1, 10, 9))],
            Scheduler(Limits(blocks=8, context_length=64)),
            Mute(),
            VirtualClock(),
            log,
        )
    )
    assert log.requests[0].outcome == "empty"


def test_rejected_requests_leave_a_record() -> None:
    log = Log(price)
    scheduler = Scheduler(Limits(blocks=8, context_length=64))
    assert not list(drive([(0.0, Request(1, 64, 1))], scheduler, StubExecutor(16), VirtualClock(), log))
    assert log.requests[0].outcome == "rejected" and "context length of 64" in log.requests[0].reason


def test_the_real_clock_waits_for_an_arrival() -> None:
    log, began = Log(price), time.perf_counter()
    scheduler = Scheduler(Limits(blocks=8, context_length=64))
    list(drive([(0.05, Request(1, 10, 1))], scheduler, StubExecutor(16), RealClock(), log))
    assert time.perf_counter() - began >= 0.05
    assert log.requests[0].first_scheduled_s is not None and log.requests[0].first_scheduled_s >= 0.05


def test_others_go_on_after_a_pass_that_failed() -> None:
    """What it was to fill is not found by those who come after, and the one that waited is served."""
    broken = True

    def fail_once() -> None:
        nonlocal broken
        if broken:
            broken = False
            raise OSError("disk gone")

    log, clock = Log(price), VirtualClock()
    scheduler = Scheduler(Limits(blocks=8, context_length=64, max_sequences=2, block_size=4))
    executor = StubExecutor(4, during=fail_once)
    for each in range(3):
        keys = executor.begin(each, 10, shared=0, shared_tokens=8)
        assert take_in(0.0, Request(each, 10, 2, block_keys=keys), scheduler, log) is None
    with pytest.raises(PassFailed, match="OSError: disk gone") as failed:
        step(scheduler, executor, clock, log)
    assert failed.value.ids == [0, 1] and isinstance(failed.value.__cause__, OSError)
    assert [(r.outcome, r.reason) for r in log.requests[:2]] == [("failed", "OSError: disk gone")] * 2
    check(scheduler.state)
    assert scheduler.used_blocks == 0
    executor.kv.clear()
    progress = step(scheduler, executor, clock, log)
    assert progress is not None and progress.record.shape == ((10, 0),)
    step(scheduler, executor, clock, log)
    assert step(scheduler, executor, clock, log) is None
    assert log.requests[2].outcome == "finished"


def test_an_answer_that_cannot_be_fails_its_pass() -> None:
    class Eager:
        def run(self, pass_: Pass) -> PassOutcome:
            return PassOutcome({1: [1, 2]})

    log, scheduler = Log(price), Scheduler(Limits(blocks=8, context_length=64))
    take_in(0.0, Request(1, 10, 9), scheduler, log)
    with pytest.raises(PassFailed, match="kept 2 tokens where at most 1 can be"):
        step(scheduler, Eager(), VirtualClock(), log)
    assert log.requests[0].outcome == "failed" and scheduler.used_blocks == 0


def test_an_id_may_come_again_right_after_it_was_cancelled() -> None:
    log, clock = Log(price), VirtualClock()
    scheduler = Scheduler(Limits(blocks=8, context_length=64))
    take_in(0.0, Request(1, 10, 9), scheduler, log)
    scheduler.cancel(1)
    take_in(0.0, Request(1, 4, 1), scheduler, log)
    step(scheduler, StubExecutor(16), clock, log)
    assert [record.outcome for record in log.requests] == ["cancelled", "finished"]


def test_a_record_says_what_was_there_while_a_pass_ran() -> None:
    log, clock = Log(price), VirtualClock()
    scheduler = Scheduler(Limits(blocks=8, context_length=64, max_sequences=1, block_size=4))
    executor = StubExecutor(4, drafts=lambda sequence, known: 2)
    for each in range(2):
        keys = executor.begin(each, 10, shared=0, shared_tokens=10)
        take_in(0.0, Request(each, 10, 3, block_keys=keys), scheduler, log)
    while step(scheduler, executor, clock, log):
        pass
    seen = [(p.shape, p.logit_rows, p.waiting, p.running, p.used_blocks) for p in log.passes]
    # of two tokens to come one is drafted; 11 is a right draft, 1011 a wrong one
    assert seen == [
        (((10, 0),), (1,), 1, 1, 3),
        (((2, 10),), (2,), 1, 1, 3),
        (((2, 8),), (1,), 0, 1, 3),
        (((2, 10),), (2,), 0, 1, 3),
        (((1, 11),), (1,), 0, 1, 3),
    ]
    first, second = log.requests
    assert (first.cached_tokens, second.cached_tokens) == (0, 8)
    assert (first.drafted_tokens, first.accepted_tokens, first.token_s) == (1, 1, [1.0, 2.0, 2.0])
    assert (second.drafted_tokens, second.accepted_tokens, second.token_s) == (1, 0, [3.0, 4.0, 5.0])


def test_a_policy_that_leaves_someone_for_ever_is_told() -> None:
    log = Log(price)
    scheduler = Scheduler(Limits(blocks=8, context_length=64), lambda state: None)
    with pytest.raises(RuntimeError, match="leaves 1 requests waiting for ever"):
        list(drive([(0.0, Request(1, 10, 9))], scheduler, StubExecutor(16), VirtualClock(), log))
    assert log.requests[0].outcome == "failed"
