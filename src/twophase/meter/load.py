"""Run one level of load from its first request to its last answer, and end in good order in any case."""

import asyncio
from collections.abc import Callable
from time import monotonic

from twophase.meter.exchange import Pool
from twophase.meter.lag import LagProbe, with_read_lag
from twophase.meter.level import Level, Limits, Progress
from twophase.meter.measured import Measured
from twophase.meter.quiet import garbage_left, interrupts, polled
from twophase.meter.records import Target
from twophase.meter.sending import Sending

__all__ = ["Measured", "run_level"]

SHOWN_EVERY_S = 0.25


async def run_level(
    pool: Pool,
    target: Target,
    level: Level,
    limits: Limits,
    *,
    share: tuple[int, int] = (0, 1),
    ready: Callable[[], float] = monotonic,
    show: Callable[[Progress], None] | None = None,
    stops: Callable[[], int] | None = None,
) -> Measured:
    """A worker's share (which, of how many) of a level.

    `ready` is called when the first requests are encoded, and gives the start. `stops` counts how often the
    user has asked to end it; without it, signals do.
    """
    sending = Sending(pool, target, level, limits, share)
    heard = interrupts(sending.interrupt) if stops is None else polled(stops, sending.interrupt)
    with garbage_left(), heard:
        return await measure(sending, ready(), show)


async def measure(sending: Sending, start_s: float, show: Callable[[Progress], None] | None) -> Measured:
    loop = asyncio.get_running_loop()
    sending.start_s = start_s
    probe = LagProbe(loop)
    shower = loop.create_task(show_all(sending, show)) if show else None
    sender = loop.create_task(sending.send_all())
    timer = None
    if (last_s := sending.level.duration_s) is not None:
        timer = loop.call_later(max(start_s + last_s - monotonic(), 0), sending.halted.set)
    try:
        await until_over(sending, sender)
    finally:
        for task in filter(None, (sender, shower)):
            task.cancel()
        if timer is not None:
            timer.cancel()
        cpu_share = probe.close()
    ended_s = monotonic()
    replies = with_read_lag(sending.digest.all_read(), probe)
    return Measured(
        replies=sorted(replies, key=lambda reply: reply.number),
        began_s=start_s,
        ended_s=ended_s,
        partial=sending.partial,
        lags=probe.lag,
        cpu_share=cpu_share,
        first_cohort=sorted(sending.first_cohort),
        full_s=sending.full_s,
        dry_s=sending.dry_s,
        notes=sending.notes,
    )


async def until_over(sending: Sending, sender: asyncio.Task[None]) -> None:
    """Until all is sent and answered; or, once halted, for the grace, and then no longer."""
    halt = asyncio.ensure_future(sending.halted.wait())
    await asyncio.wait((sender, halt), return_when=asyncio.FIRST_COMPLETED)
    idle = asyncio.ensure_future(sending.idle.wait())
    await asyncio.wait((idle, halt), return_when=asyncio.FIRST_COMPLETED)
    halt.cancel()
    idle.cancel()
    sending.dry_s = sending.dry_s or monotonic()
    deadline = monotonic() + sending.grace_s
    while sending.sessions and monotonic() < deadline:
        await asyncio.wait(sending.sessions, timeout=0.1)
        deadline = min(deadline, monotonic() + sending.grace_s)  # a second interrupt ends the grace
    if sending.sessions and not sending.partial:
        sending.partial = sending.gone_silent()
    while sending.sessions:
        sending.pool.cancel("the run ended before its answer did")
        _, waiting = await asyncio.wait(sending.sessions, timeout=0.1)
        for task in waiting:  # for a connection
            task.cancel()
    if sending.broken is not None:
        raise sending.broken
    if sender.done():
        sender.result()


async def show_all(sending: Sending, show: Callable[[Progress], None]) -> None:
    while True:
        await asyncio.sleep(SHOWN_EVERY_S)
        sending.progress.elapsed_s = max(monotonic() - sending.start_s, 0.0)
        show(sending.progress)
