"""Loads against a server of known times; its log is the truth. Times have wide bounds, counts are exact."""

import asyncio
import os
import signal
import socket
import threading
from dataclasses import replace
from itertools import islice
from time import monotonic, sleep
from typing import Any

import pytest
from timed_server import Timed, timed_server

from twophase.meter.calibration import Calibration
from twophase.meter.dialect import Dialect
from twophase.meter.exchange import Pool, run
from twophase.meter.level import Level, Limits, Progress
from twophase.meter.load import run_level
from twophase.meter.measured import Measured
from twophase.meter.prompts import Synthetic
from twophase.meter.records import Target
from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import Lengths

RECIPE = Synthetic("s", Calibration(), Lengths("fixed", 20), Lengths("fixed", 10))
CLOSED = Level(RECIPE, Dialect("fake"), "p", sessions=12, concurrency=3)


def measured(timed: Timed, level: Level, limits: Limits | None = None, **more: Any) -> Measured:
    async def main() -> Measured:
        pool = Pool()
        try:
            target = Target(timed.url, "fake", level.dialect.endpoint)
            return await run_level(pool, target, level, limits or Limits(), **more)
        finally:
            await pool.close()

    return run(main)


def test_a_closed_loop_keeps_its_streams_and_measures_the_servers_times() -> None:
    with timed_server() as timed:
        done = measured(timed, CLOSED)
    assert [reply.number for reply in done.replies] == list(range(12))
    assert {(reply.outcome, reply.point) for reply in done.replies} == {("finished", "p")}
    assert max(asked.live for asked in timed.asked) == 3
    assert len({asked.prompt.split()[0] for asked in timed.asked}) == 12
    assert {reply.prompt_tokens for reply in done.replies} == {11 + 40}
    truth = {asked.prompt: asked for asked in timed.asked}
    for reply in done.replies:
        asked = truth[RECIPE(reply.number).turns[0].text]
        assert reply.ttft_s is not None and reply.last_token_s is not None
        assert 0 < reply.first_token_s - asked.first_s < 0.2  # one clock for both
        assert 0 < reply.last_token_s - asked.last_s < 0.2
        assert reply.ttft_s >= timed.ttft_s - 0.001
    assert len(done.first_cohort) == 3
    assert done.full_s is not None and done.dry_s is not None
    assert done.began_s <= done.full_s < done.dry_s <= done.ended_s
    assert len(done.lags) > 10
    assert done.partial == ""


def test_the_first_cohort_is_spread_out() -> None:
    with timed_server(ttft_s=0.01) as timed:
        measured(timed, replace(CLOSED, concurrency=4, spread_s=0.2))
    first = sorted(asked.at_s for asked in timed.asked)[0]
    begins = {}
    for asked in sorted(timed.asked, key=lambda each: each.at_s):
        begins.setdefault(round((asked.at_s - first) / 0.05), asked)
    assert set(begins) >= {0, 1, 2, 3}


def test_as_many_requests_as_streams_go_out_at_once() -> None:
    with timed_server(ttft_s=0.3) as timed:
        measured(timed, replace(CLOSED, sessions=20, concurrency=20, spread_s=5.0))
    arrived = [asked.at_s for asked in timed.asked]
    assert len(arrived) == 20
    assert max(asked.live for asked in timed.asked) == 20
    assert max(arrived) - min(arrived) < 0.3


def test_an_open_loop_sends_when_due_however_slow_the_server_is() -> None:
    due = tuple(0.02 * number for number in range(10))
    with timed_server(ttft_s=0.05, itl_s=0, serial=True) as timed:
        done = measured(timed, replace(CLOSED, concurrency=None, due=due, sessions=10))
    assert [reply.due_s - done.began_s for reply in done.replies] == pytest.approx(due)
    late = [reply.sent_s - reply.due_s for reply in done.replies]
    assert min(late) >= 0
    assert sorted(late)[5] < 0.02
    assert max(asked.live for asked in timed.asked) > 3
    first = done.replies[-1].first_token_s
    assert first is not None
    assert first - done.replies[-1].due_s >= 10 * 0.05 - due[-1] - 0.001


def test_waiting_for_the_cap_counts_from_the_schedule() -> None:
    """A semaphore before the send hides the queue (vllm issue 54101)."""
    due = tuple(0.01 * number for number in range(8))
    level = replace(CLOSED, concurrency=None, due=due, sessions=8, most_in_flight=1)
    with timed_server(ttft_s=0.05, itl_s=0) as timed:
        done = measured(timed, level)
    last = done.replies[-1]
    assert last.first_token_s is not None and last.ttft_s is not None
    assert max(asked.live for asked in timed.asked) == 1
    assert last.first_token_s - last.due_s >= 8 * 0.05 - due[-1] - 0.001
    assert last.ttft_s < last.first_token_s - last.due_s - 0.2
    assert any("saturated" in note for note in done.notes)


def test_poisson_arrivals_are_the_seeds() -> None:
    level = replace(CLOSED, concurrency=None, due=Arrivals(200.0), sessions=20, seed="x")
    with timed_server(ttft_s=0, itl_s=0) as timed:
        one, two = measured(timed, level), measured(timed, level)
    times = [[reply.due_s - done.began_s for reply in done.replies] for done in (one, two)]
    assert times[0] == pytest.approx(times[1])
    assert times[0] == pytest.approx(list(islice(level.due_for(0, 1), 20)))


def test_a_duration_ends_it_and_what_is_in_flight_may_finish() -> None:
    with timed_server() as timed:
        done = measured(timed, replace(CLOSED, sessions=None, duration_s=0.3))
    assert {reply.outcome for reply in done.replies} == {"finished"}
    assert len(done.replies) > 9
    assert max(reply.sent_s for reply in done.replies) - done.began_s < 0.4
    assert done.partial == ""


def test_after_the_grace_the_rest_is_cancelled() -> None:
    with timed_server(ttft_s=30.0) as timed:
        done = measured(timed, replace(CLOSED, duration_s=0.1), Limits(grace_s=0.1))
    assert [reply.outcome for reply in done.replies] == ["cancelled"] * 3
    assert done.ended_s - done.began_s < 5
    assert done.partial == ""


def test_a_server_that_stops_answering_makes_the_run_partial() -> None:
    with timed_server(ttft_s=0.0, itl_s=0.0) as timed:

        def stall() -> None:
            while len(timed.asked) < 6:
                sleep(0.005)
            timed.ttft_s = 60.0

        threading.Thread(target=stall, daemon=True).start()
        done = measured(timed, replace(CLOSED, sessions=None, duration_s=0.5), Limits(grace_s=1.2))
    assert done.partial.startswith("the server stopped answering: not a byte came in the last ")
    assert [reply.outcome for reply in done.replies].count("cancelled") == 3


def test_a_request_that_gets_no_connection_does_not_hold_up_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:  # takes no more than it has in its queue
        port = full.getsockname()[1]
        queued = [socket.socket() for _ in range(4)]
        for each in queued:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        done = measured(
            Timed(url=f"http://127.0.0.1:{port}"), replace(CLOSED, duration_s=0.2), Limits(grace_s=0.1)
        )
        for each in queued:
            each.close()
    assert [reply.outcome for reply in done.replies] == ["cancelled"] * 3
    assert done.ended_s - done.began_s < 5


def test_a_request_that_takes_too_long_is_no_success() -> None:
    with timed_server(ttft_s=30.0) as timed:
        done = measured(timed, replace(CLOSED, sessions=3), Limits(timeout_s=0.1))
    assert len(done.replies) == 3
    assert "finished" not in {reply.outcome for reply in done.replies}


def test_a_server_that_dies_leaves_what_was_measured() -> None:
    with timed_server(dies_after=30) as timed:
        done = measured(timed, replace(CLOSED, sessions=100_000))
    assert "the server is gone" in done.partial
    outcomes = [reply.outcome for reply in done.replies]
    assert outcomes.count("finished") > 5
    assert len(outcomes) < 1000


@pytest.mark.parametrize("ctrl_c", [1, 2])
def test_ctrl_c_keeps_what_was_measured(ctrl_c: int) -> None:
    """The first lets requests finish for a moment; the second does not."""
    heard: list[int] = []
    before = signal.signal(
        signal.SIGINT, lambda number, frame: heard.append(number)
    )  # a late one harms nobody
    with timed_server(ttft_s=0.1, itl_s=0.05) as timed:  # 0.55 s each

        def interrupt() -> None:
            while len(timed.asked) < 6:
                sleep(0.005)
            for _ in range(ctrl_c):
                os.kill(os.getpid(), signal.SIGINT)
                sleep(0.05)

        threading.Thread(target=interrupt, daemon=True).start()
        try:
            done = measured(timed, replace(CLOSED, sessions=1000))
        finally:
            ours = signal.signal(signal.SIGINT, before)
    assert done.partial == "interrupted"
    last = ["finished"] * 3 if ctrl_c == 1 else ["cancelled"] * 3
    assert [reply.outcome for reply in done.replies] == ["finished"] * 3 + last
    assert ours(0, None) is None and heard == [0]  # our handler is back in its place


def test_turns_follow_each_other_with_the_answers_between() -> None:
    recipe = replace(RECIPE, turns=3)
    with timed_server(ttft_s=0, itl_s=0) as timed:
        done = measured(timed, replace(CLOSED, recipe=recipe, sessions=2, turns=3, concurrency=1))
    assert [reply.number for reply in done.replies] == list(range(6))
    bodies = [asked.body["messages"] for asked in timed.asked]
    assert [len(messages) for messages in bodies] == [1, 3, 5, 1, 3, 5]
    assert bodies[2][:3] == bodies[1]
    assert bodies[1][1] == {"role": "assistant", "content": " so" * 10}
    assert bodies[3][0] != bodies[0][0]


def test_completions_have_turns_too() -> None:
    level = replace(
        CLOSED, recipe=replace(RECIPE, turns=2), sessions=1, turns=2, dialect=Dialect("fake", "completions")
    )
    with timed_server(ttft_s=0, itl_s=0) as timed:
        measured(timed, level)
    assert "so so so" in timed.asked[1].prompt
    assert timed.asked[1].prompt.startswith(timed.asked[0].prompt)


def test_progress_tells_how_far_it_is() -> None:
    seen: list[Progress] = []
    with timed_server(ttft_s=0.05) as timed:
        measured(timed, CLOSED, show=lambda progress: seen.append(replace(progress)))
    assert seen
    assert seen[-1].planned == 12
    assert 0 < seen[-1].done <= 12
    assert seen[-1].ttft_s is None or seen[-1].ttft_s > 0.04


def test_shares_of_workers_make_the_whole() -> None:
    level = replace(CLOSED, sessions=7, concurrency=5, first=3, spread_s=1.0)
    parts = [[session.call for session in level.sessions_for(worker, 3)] for worker in range(3)]
    whole = sorted((call for part in parts for call in part), key=lambda call: call.number)
    assert whole == [session.call for session in level.sessions_for(0, 1)]
    assert sorted(at for worker in range(3) for at in level.slots_for(worker, 3)) == level.slots_for(0, 1)
    assert sum(level.planned(worker, 3) or 0 for worker in range(3)) == 7
    times = replace(level, due=(1.0, 2.0, 3.0, 4.0))
    assert [list(times.due_for(worker, 2)) for worker in range(2)] == [[1.0, 3.0], [2.0, 4.0]]


def test_a_fault_of_ours_is_not_swallowed() -> None:
    def recipe(number: int) -> Any:
        if number > 1024:
            raise KeyError("a fault")
        return RECIPE(number)

    with timed_server(ttft_s=0, itl_s=0) as timed, pytest.raises(KeyError):
        measured(timed, replace(CLOSED, recipe=recipe, sessions=2000))


def test_a_late_start_is_waited_for() -> None:
    with timed_server(ttft_s=0, itl_s=0) as timed:
        start = monotonic() + 0.2
        done = measured(timed, replace(CLOSED, sessions=3), ready=lambda: start)
    assert done.began_s == start
    assert min(asked.at_s for asked in timed.asked) >= start - 0.002


def test_the_loop_is_left_as_it_was() -> None:
    with timed_server(ttft_s=0, itl_s=0) as timed:

        async def main() -> int:
            pool = Pool()
            await run_level(pool, Target(timed.url, "fake", "chat"), CLOSED, Limits())
            await pool.close()
            return len(asyncio.all_tasks())

        assert run(main) == 1
