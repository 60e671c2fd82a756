"""One level by several processes of this machine: they share its clock, its start, and nothing else."""

import asyncio
import multiprocessing
import signal
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from time import monotonic
from typing import Any

from twophase.errors import InputError
from twophase.meter.exchange import Pool, run
from twophase.meter.level import Level, Limits, Progress
from twophase.meter.load import run_level
from twophase.meter.measured import Measured
from twophase.meter.quiet import interrupts
from twophase.meter.records import Target

START_S = 0.05  # from all being ready to the common start
PATIENCE_S = 120.0  # for all to be ready
SHOWN = ("sent", "done", "failed", "in_flight", "ttft_s", "tpot_s")


@dataclass(frozen=True, slots=True)
class Common:
    """What all workers of a level share."""

    barrier: Any  # of multiprocessing
    start_s: Any
    stops: Any  # how often the user asked to end it
    shown: Any  # each worker's progress


def merged(parts: Sequence[Measured]) -> Measured:
    """All parts as one: nothing is averaged, so percentiles are those of a single process."""
    lags = array("d")
    for part in parts:
        lags.extend(part.lags)
    full = [part.full_s for part in parts if part.full_s is not None]
    dry = [part.dry_s for part in parts if part.dry_s is not None]
    return Measured(
        replies=sorted((reply for part in parts for reply in part.replies), key=lambda reply: reply.number),
        began_s=min(part.began_s for part in parts),
        ended_s=max(part.ended_s for part in parts),
        partial=next((part.partial for part in parts if part.partial), ""),
        lags=lags,
        cpu_share=max(part.cpu_share for part in parts),
        first_cohort=sorted(number for part in parts for number in part.first_cohort),
        full_s=max(full, default=None),
        dry_s=min(dry, default=None),
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
    )


async def run_workers(
    target: Target, level: Level, limits: Limits, workers: int, show: Callable[[Progress], None] | None
) -> Measured:
    """The level's sessions dealt out one by one, its slots too; all start at one instant."""
    spawn = multiprocessing.get_context("spawn")  # a fork would copy this loop and its signals
    start = spawn.Value("d", 0.0, lock=False)
    common = Common(
        barrier=spawn.Barrier(workers),
        start_s=start,
        stops=spawn.Value("i", 0),
        shown=spawn.Array("d", workers * len(SHOWN), lock=False),
    )
    loop = asyncio.get_running_loop()
    with (
        ProcessPoolExecutor(workers, spawn, initializer=begin, initargs=(common,)) as pool,
        interrupts(lambda: stop(common)),
    ):
        jobs = [
            loop.run_in_executor(pool, work, target, level, limits, (worker, workers))
            for worker in range(workers)
        ]
        shower = loop.create_task(show_all(common, level, workers, show)) if show else None
        try:
            return merged(await asyncio.gather(*jobs))
        except BrokenProcessPool:
            raise InputError(
                f"one of {workers} workers died, perhaps for want of memory: give fewer --workers"
            ) from None
        finally:
            if shower is not None:
                shower.cancel()


def stop(common: Common) -> None:
    common.stops.value += 1


async def show_all(common: Common, level: Level, workers: int, show: Callable[[Progress], None]) -> None:
    while True:
        await asyncio.sleep(0.25)
        if not common.start_s.value:
            continue
        rows = [common.shown[at : at + len(SHOWN)] for at in range(0, workers * len(SHOWN), len(SHOWN))]
        sent, done, failed, in_flight = (round(sum(row[at] for row in rows)) for at in range(4))
        ttft, tpot = (mean([row[at] for row in rows if row[at]]) for at in (4, 5))
        elapsed = max(monotonic() - common.start_s.value, 0.0)
        show(Progress(elapsed, sent, done, failed, in_flight, level.planned(0, 1), ttft, tpot))


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# in a worker

_common: Common | None = None  # handed to the process when it began: these can't travel with a job


def begin(common: Common) -> None:
    global _common  # noqa: PLW0603
    _common = common
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches every process of a terminal: the first one tells


def work(target: Target, level: Level, limits: Limits, share: tuple[int, int]) -> Measured:
    common = _common
    assert common is not None

    def ready() -> float:
        """The common start, once every worker has its requests encoded."""
        if common.barrier.wait(PATIENCE_S) == 0:
            common.start_s.value = monotonic() + START_S
        common.barrier.wait(PATIENCE_S)
        return float(common.start_s.value)

    def shown(progress: Progress) -> None:
        at = share[0] * len(SHOWN)
        common.shown[at : at + len(SHOWN)] = [float(getattr(progress, name) or 0) for name in SHOWN]

    async def alone() -> Measured:
        pool = Pool()
        try:
            return await run_level(
                pool,
                target,
                level,
                limits,
                share=share,
                ready=ready,
                show=shown,
                stops=lambda: common.stops.value,
            )
        finally:
            await pool.close()

    return run(alone)
