"""One level by tasks of a Ray cluster: many machines, whose clocks agree as well as they are kept."""

import asyncio
import socket
import threading
import time
from dataclasses import replace
from importlib import import_module
from typing import Any

from twophase.errors import InputError
from twophase.meter.exchange import Pool, run
from twophase.meter.level import Level, Limits
from twophase.meter.load import run_level
from twophase.meter.measured import Measured
from twophase.meter.quiet import interrupts
from twophase.meter.records import Reply, Target
from twophase.meter.workers import PATIENCE_S, merged

START_S = 0.5  # from all being ready to the common start, by each machine's own clock
PATIENCE_TO_CONNECT_S = 5.0
ASKED_EVERY_S = 0.25  # whether the user has ended it
NOTE = "times are each machine's own: between machines they agree as well as their clocks do"


class Gate:
    """An actor: it lets all workers begin at one instant, and tells them when the user ends it."""

    def __init__(self, workers: int) -> None:
        self.missing = workers
        self.open = asyncio.Event()
        self.start_at = 0.0
        self.asked = 0

    async def start(self) -> float:
        """The common start by the time of day, once all have come."""
        self.missing -= 1
        if not self.missing:
            self.start_at = time.time() + START_S
            self.open.set()
        await asyncio.wait_for(self.open.wait(), PATIENCE_S)
        return self.start_at

    async def stop(self) -> None:
        self.asked += 1

    async def stops(self) -> int:
        return self.asked


def connected(address: str) -> Any:
    """Ray, on this cluster; InputError says how to get it."""
    try:
        ray = import_module("ray")
    except ModuleNotFoundError:
        raise InputError(
            f"--ray {address} needs Ray: install the extra ray (pip install '.[ray]' in a clone)"
        ) from None
    require_answer(address)
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level="warning")
    except Exception as error:
        raise InputError(f"--ray {address}: no cluster answers there: {first_line(error)}") from None
    return ray


def require_answer(address: str) -> None:
    """Ray itself would try a place where nobody listens for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE_TO_CONNECT_S).close()
        except (OSError, OverflowError) as error:
            raise InputError(f"--ray {address}: no cluster answers there: {first_line(error)}") from None


def workers_on(ray: Any, wanted: int | None, level: Level) -> int:
    """One for each machine where no number is asked for; InputError for more than the cluster's cores."""
    cores = int(ray.cluster_resources().get("CPU", 0))
    if wanted is not None and wanted > cores:
        raise InputError(f"--workers {wanted}: the cluster has {cores} cores, and each worker takes one")
    machines = sum(bool(node["Alive"]) for node in ray.nodes())
    return max(min(wanted or machines, cores, level.concurrency or cores), 1)


async def run_ray(ray: Any, target: Target, level: Level, limits: Limits, workers: int) -> Measured:
    """As `run_workers`; the parts' times are moved onto this machine's monotonic clock."""
    gate = ray.remote(num_cpus=0, max_concurrency=workers + 2)(Gate).remote(workers)
    task = ray.remote(num_cpus=1, scheduling_strategy="SPREAD", max_retries=0)(work_at)
    jobs = [task.remote(target, level, limits, (worker, workers), gate) for worker in range(workers)]
    with interrupts(gate.stop.remote):
        try:
            parts = await asyncio.to_thread(ray.get, jobs)
        except Exception as error:  # of any kind: Ray wraps what a task raised
            raise InputError(
                f"--ray: a worker failed: {first_line(getattr(error, 'cause', None) or error)}"
            ) from error
    here = time.time() - time.monotonic()
    whole = merged([moved(part, offset - here) for part, offset in parts])
    whole.notes.append(NOTE)
    return whole


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def work_at(
    target: Target, level: Level, limits: Limits, share: tuple[int, int], gate: Any
) -> tuple[Measured, float]:
    """In a worker: its part, and what its monotonic clock lacks to the time of day."""
    ray = import_module("ray")
    stops = 0
    over = threading.Event()

    def listen() -> None:
        nonlocal stops
        while not over.wait(ASKED_EVERY_S):
            stops = ray.get(gate.stops.remote())

    def ready() -> float:
        start_at: float = ray.get(gate.start.remote())
        threading.Thread(target=listen, daemon=True).start()
        return time.monotonic() + max(start_at - time.time(), 0.0)

    async def alone() -> Measured:
        pool = Pool()
        try:
            return await run_level(pool, target, level, limits, share=share, ready=ready, stops=lambda: stops)
        finally:
            over.set()
            await pool.close()

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
