"""A real cluster of one machine, where Ray is installed."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from time import sleep
from typing import Any

import pytest
from timed_server import timed_server

from twophase.meter.calibration import Calibration
from twophase.meter.dialect import Dialect
from twophase.meter.exchange import run
from twophase.meter.level import Level, Limits
from twophase.meter.prompts import Synthetic
from twophase.meter.ray_workers import run_ray, workers_on
from twophase.meter.records import Target
from twophase.workload.lengths import Lengths

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings

RECIPE = Synthetic("s", Calibration(), Lengths("fixed", 20), Lengths("fixed", 10))
LEVEL = Level(RECIPE, Dialect("fake"), "p", sessions=20, concurrency=4)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield ray
    ray.shutdown()


def test_tasks_share_the_level(ray: Any) -> None:
    assert (workers_on(ray, None, LEVEL), workers_on(ray, 2, LEVEL)) == (1, 2)
    with timed_server() as timed:
        done = run(lambda: run_ray(ray, Target(timed.url, "fake", "chat"), LEVEL, Limits(), 2))
    assert [reply.number for reply in done.replies] == list(range(20))
    assert {reply.outcome for reply in done.replies} == {"finished"}
    assert max(asked.live for asked in timed.asked) == 4
    truth = {asked.prompt: asked for asked in timed.asked}
    for reply in done.replies:
        assert reply.first_token_s is not None
        assert abs(reply.first_token_s - truth[RECIPE(reply.number).turns[0].text].first_s) < 0.1


def test_ctrl_c_ends_it_and_keeps_what_was_measured(ray: Any) -> None:
    with timed_server() as timed:

        def interrupt() -> None:
            while len(timed.asked) < 6:
                sleep(0.005)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        level = replace(LEVEL, sessions=100_000)
        done = run(lambda: run_ray(ray, Target(timed.url, "fake", "chat"), level, Limits(), 2))
    assert done.partial == "interrupted"
    assert len([reply for reply in done.replies if reply.outcome == "finished"]) > 2
