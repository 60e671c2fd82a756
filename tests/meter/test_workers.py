import asyncio
import os
import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from timed_server import Timed, timed_server

from twophase.errors import InputError
from twophase.meter import ray_workers
from twophase.meter.calibration import Calibration
from twophase.meter.dialect import Dialect
from twophase.meter.exchange import run
from twophase.meter.level import Level, Limits
from twophase.meter.measured import Measured
from twophase.meter.plan import workers_for
from twophase.meter.prompts import Synthetic
from twophase.meter.records import Target
from twophase.meter.workers import merged, run_workers
from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import Lengths

RECIPE = Synthetic("s", Calibration(), Lengths("fixed", 20), Lengths("fixed", 10))
CLOSED = Level(RECIPE, Dialect("fake"), "p", sessions=10, concurrency=4)


def measured(timed: Timed, level: Level, workers: int = 2) -> Measured:
    return run(lambda: run_workers(Target(timed.url, "fake", "chat"), level, Limits(), workers, None))


def test_two_processes_do_the_work_of_one() -> None:
    with timed_server() as timed:
        done = measured(timed, CLOSED)
    assert [reply.number for reply in done.replies] == list(range(10))
    assert {reply.outcome for reply in done.replies} == {"finished"}
    assert max(asked.live for asked in timed.asked) == 4
    assert sorted(asked.prompt for asked in timed.asked) == sorted(
        RECIPE(number).turns[0].text for number in range(10)
    )
    truth = {asked.prompt: asked for asked in timed.asked}
    for reply in done.replies:
        assert reply.first_token_s is not None
        late = reply.first_token_s - truth[RECIPE(reply.number).turns[0].text].first_s
        assert 0 < late < 0.2  # their clock is this process's
    assert len(done.first_cohort) == 4


def test_an_open_loop_is_dealt_out() -> None:
    level = replace(CLOSED, concurrency=None, due=Arrivals(100.0, "constant"))
    with timed_server(ttft_s=0, itl_s=0) as timed:
        done = measured(timed, level)
    assert [reply.due_s - done.began_s for reply in done.replies] == pytest.approx(
        [0.01 * number for number in range(1, 11)], abs=1e-6
    )


def test_ctrl_c_reaches_the_workers() -> None:
    with timed_server(ttft_s=0.05) as timed:

        def interrupt() -> None:
            while len(timed.asked) < 6:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        done = measured(timed, replace(CLOSED, sessions=100_000))
    assert done.partial == "interrupted"
    assert 6 <= len(done.replies) < 10_000


def part(**more: object) -> Measured:
    return replace(Measured([], 1.0, 5.0), **more)  # type: ignore[arg-type]


def test_parts_merge_without_averaging() -> None:
    one = part(
        lags=array("d", [1.0, 2.0]), cpu_share=0.2, first_cohort=[4], full_s=2.0, dry_s=4.0, notes=["n"]
    )
    two = part(
        ended_s=6.0,
        lags=array("d", [3.0]),
        cpu_share=0.4,
        first_cohort=[1],
        full_s=3.0,
        dry_s=3.5,
        notes=["n"],
    )
    whole = merged([one, replace(two, partial="why")])
    assert list(whole.lags) == [1.0, 2.0, 3.0]
    assert (whole.cpu_share, whole.first_cohort, whole.notes) == (0.4, [1, 4], ["n"])
    assert (whole.full_s, whole.dry_s, whole.ended_s, whole.partial) == (3.0, 3.5, 6.0, "why")


def test_how_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert workers_for(None, 64, 0) == 1
    assert workers_for(None, 2000, 0) == 4
    assert workers_for(None, 0, 1000.0) == 4
    assert workers_for(None, 1_000_000, 0) == 15
    assert workers_for(3, 1, 0) == 3


def test_ray_is_asked_for_in_one_line_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match="extra ray"):
        ray_workers.connected("auto")


@pytest.mark.parametrize(
    ("wanted", "level", "workers"), [(None, 4, 2), (3, 4, 3), (None, 1, 1), (8, None, 8)]
)
def test_workers_of_a_cluster(wanted: int | None, level: int | None, workers: int) -> None:
    """Two machines of four cores, and one that has gone."""
    alive = [{"Alive": True}, {"Alive": True}, {"Alive": False}]
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 8.0}, nodes=lambda: alive)
    assert ray_workers.workers_on(ray, wanted, replace(CLOSED, concurrency=level)) == workers
    with pytest.raises(InputError, match="8 cores"):
        ray_workers.workers_on(ray, 9, CLOSED)


def test_a_cluster_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    with pytest.raises(InputError, match="no cluster answers there"):
        ray_workers.connected("127.0.0.1:9")


def test_ray_tasks_do_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Ray that runs each task in a thread of this process."""

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def remote(**options: object) -> Callable[[Any], Any]:
        def made(what: Any) -> Any:
            return SimpleNamespace(remote=lambda *given: begin(what, given))

        return made

    def begin(what: Any, given: tuple[object, ...]) -> Any:
        if isinstance(what, type):
            return Actor(what(*given))
        pool = ThreadPoolExecutor(1)
        return pool.submit(what, *given)

    class Actor:
        def __init__(self, own: object) -> None:
            self.own = own

        def __getattr__(self, name: str) -> Any:
            method = getattr(self.own, name)
            return SimpleNamespace(
                remote=lambda *given: asyncio.run_coroutine_threadsafe(method(*given), loop)
            )

    def get(found: Any) -> Any:
        return [each.result() for each in found] if isinstance(found, list) else found.result()

    fake = SimpleNamespace(init=lambda **options: None, remote=remote, get=get)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(ray_workers, "START_S", 0.2)
    with timed_server() as timed:
        ray = ray_workers.connected("auto")
        target = Target(timed.url, "fake", "chat")
        done = run(lambda: ray_workers.run_ray(ray, target, CLOSED, Limits(), 2))
    assert [reply.number for reply in done.replies] == list(range(10))
    assert {reply.outcome for reply in done.replies} == {"finished"}
    assert done.notes == [ray_workers.NOTE]
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    truth = {asked.prompt: asked for asked in timed.asked}
    for reply in done.replies:
        assert reply.first_token_s is not None
        assert abs(reply.first_token_s - truth[RECIPE(reply.number).turns[0].text].first_s) < 0.1
