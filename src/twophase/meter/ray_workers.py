"""One level by tasks of a Ray cluster: many machines, whose clocks agree as well as they are kept."""

import asyncio
import time
from dataclasses import replace
from importlib import import_module
from typing import Any

from twophase.errors import InputError
from twophase.meter.exchange import Pool, run
from twophase.meter.level import Level, Limits
from twophase.meter.load import run_level
from twophase.meter.measured import Measured
from twophase.meter.records import Reply, Target
from twophase.meter.workers import merged

START_S = 3.0  # from the call to the common start, by each machine's own clock
NOTE = "times are each machine's own: between machines they agree as well as their clocks do"


def connected(address: str) -> Any:
    """Ray, on this cluster; InputError says how to get it."""
    try:
        ray = import_module("ray")
    except ModuleNotFoundError:
        raise InputError(
            f"--ray {address} needs Ray: install the extra ray (pip install 'twophase[ray]')"
        ) from None
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except Exception as error:
        raise InputError(f"--ray {address}: no cluster answers there: {str(error).splitlines()[0]}") from None
    return ray


async def run_ray(ray: Any, target: Target, level: Level, limits: Limits, workers: int) -> Measured:
    """As `run_workers`; the parts' times are moved onto this machine's monotonic clock."""
    start_at = time.time() + START_S
    task = ray.remote(num_cpus=1)(work_at)
    jobs = [task.remote(target, level, limits, (worker, workers), start_at) for worker in range(workers)]
    parts = await asyncio.to_thread(ray.get, jobs)
    here = time.time() - time.monotonic()
    whole = merged([moved(part, offset - here) for part, offset in parts])
    whole.notes.append(NOTE)
    return whole


def work_at(
    target: Target, level: Level, limits: Limits, share: tuple[int, int], start_at: float
) -> tuple[Measured, float]:
    """In a worker: its part, and what its monotonic clock lacks to the time of day."""

    async def alone() -> Measured:
        pool = Pool()
        try:
            return await run_level(pool, target, level, limits, share=share, ready=ready, stops=lambda: 0)
        finally:
            await pool.close()

    def ready() -> float:
        return time.monotonic() + max(start_at - time.time(), 0.0)

    return run(alone), time.time() - time.monotonic()


def moved(part: Measured, by_s: float) -> Measured:
    def at(seconds: float | None) -> float | None:
        return None if seconds is None else seconds + by_s

    part.replies = [moved_reply(reply, by_s) for reply in part.replies]
    part.began_s += by_s
    part.ended_s += by_s
    part.full_s, part.dry_s = at(part.full_s), at(part.dry_s)
    return part


def moved_reply(reply: Reply, by_s: float) -> Reply:
    names = (
        "due_s",
        "sent_s",
        "first_event_s",
        "first_token_s",
        "first_answer_s",
        "last_token_s",
        "closed_s",
    )
    times = {name: value + by_s for name in names if (value := getattr(reply, name)) is not None}
    events = tuple(event._replace(at_s=event.at_s + by_s) for event in reply.events)
    return replace(reply, events=events, **times)
