"""Run one level of load: send what is due, take down what comes, stop in good order whatever happens."""

import asyncio
from array import array
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from time import monotonic

from twophase.meter.answers import answer_of
from twophase.meter.digest import Digest
from twophase.meter.exchange import Pool, exchange
from twophase.meter.feed import Feed, Session
from twophase.meter.kernel_timer import Alarm
from twophase.meter.lag import LagProbe, with_read_lag
from twophase.meter.level import Level, Limits, Progress
from twophase.meter.quiet import garbage_left, interrupts, polled
from twophase.meter.records import Exchange, Reply, Target

DEAD = 10  # refused connections in a row: nobody is there any more
SHOWN_EVERY_S = 0.25
LOW = 64  # requests ready: below that, more are encoded between two sends


@dataclass(slots=True)
class Measured:
    """What one process measured of one level. Picklable: workers send it home."""

    replies: list[Reply]
    began_s: float
    ended_s: float
    partial: str = ""  # why it ended before its plan
    lags: "array[float]" = field(default_factory=lambda: array("d"))
    cpu_share: float = 0.0
    first_cohort: list[int] = field(default_factory=list)  # calls that filled the slots of a closed loop
    full_s: float | None = None  # when all slots had sent, or the arrivals' ramp was over
    dry_s: float | None = None  # when nothing was left to send
    notes: list[str] = field(default_factory=list)


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
    feed = Feed(level.sessions_for(*share))
    feed.fill()
    load = Load(pool, target, level, limits, feed, share)
    with garbage_left(), interrupts(load.interrupt) if stops is None else polled(stops, load.interrupt):
        return await load.measure(ready(), show)


class Load:
    """The only owner of a level's state while it runs."""

    def __init__(
        self,
        pool: Pool,
        target: Target,
        level: Level,
        limits: Limits,
        feed: Feed,
        share: tuple[int, int],
    ) -> None:
        self.pool = pool
        self.target = target
        self.level = level
        self.limits = limits
        self.feed = feed
        self.share = share
        self.progress = Progress(planned=level.planned(*share))
        self.digest = Digest(level.dialect.endpoint, self.progress)
        self.halted = asyncio.Event()
        self.grace_s = limits.grace_s
        self.partial = ""
        self.refused = 0  # in a row
        self.sessions: set[asyncio.Task[None]] = set()
        self.idle = asyncio.Event()  # no session is under way
        self.idle.set()
        self.broken: BaseException | None = None
        self.start_s = 0.0
        self.first_cohort: list[int] = []
        self.full_s: float | None = None
        self.dry_s: float | None = None
        self.notes: list[str] = []

    async def measure(self, start_s: float, show: Callable[[Progress], None] | None) -> Measured:
        loop = asyncio.get_running_loop()
        self.start_s = start_s
        probe = LagProbe(loop)
        shower = loop.create_task(self.show_all(show)) if show else None
        sender = loop.create_task(self.send_open() if self.level.open_loop else self.send_closed())
        timer = None
        if self.level.duration_s is not None:
            timer = loop.call_later(max(start_s + self.level.duration_s - monotonic(), 0), self.halted.set)
        try:
            await self.until_over(sender)
        finally:
            for task in filter(None, (sender, shower)):
                task.cancel()
            if timer is not None:
                timer.cancel()
            cpu_share = probe.close()
        ended_s = monotonic()
        replies = with_read_lag(self.digest.all_read(), probe)
        return Measured(
            replies=sorted(replies, key=lambda reply: reply.number),
            began_s=start_s,
            ended_s=ended_s,
            partial=self.partial,
            lags=probe.lag,
            cpu_share=cpu_share,
            first_cohort=sorted(self.first_cohort),
            full_s=self.full_s,
            dry_s=self.dry_s,
            notes=self.notes,
        )

    # ending

    async def until_over(self, sender: asyncio.Task[None]) -> None:
        """Until all is sent and answered; or, once halted, for the grace, and then no longer."""
        halt = asyncio.ensure_future(self.halted.wait())
        await asyncio.wait((sender, halt), return_when=asyncio.FIRST_COMPLETED)
        idle = asyncio.ensure_future(self.idle.wait())
        await asyncio.wait((idle, halt), return_when=asyncio.FIRST_COMPLETED)
        halt.cancel()
        idle.cancel()
        self.dry_s = self.dry_s or monotonic()
        deadline = monotonic() + self.grace_s
        while self.sessions and monotonic() < deadline:
            await asyncio.wait(self.sessions, timeout=0.1)
            deadline = min(deadline, monotonic() + self.grace_s)  # a second interrupt ends the grace
        while self.sessions:
            self.pool.cancel("the run ended before its answer did")
            await asyncio.wait(self.sessions, timeout=0.1)
        if self.broken is not None:
            raise self.broken
        if sender.done():
            sender.result()

    def halt(self, why: str, grace_s: float) -> None:
        """Send nothing more."""
        self.partial = self.partial or why
        self.grace_s = min(self.grace_s, grace_s)
        self.halted.set()

    def interrupt(self) -> None:
        """Ctrl-C: the first drains for a moment, the second cancels what is in flight."""
        self.halt("interrupted", 0.0 if self.partial else self.limits.grace_interrupted_s)

    def watch(self, done: Exchange) -> None:
        """A server that has gone is not asked ten thousand times."""
        self.refused = self.refused + 1 if done.closing == "refused" else 0
        if self.refused >= DEAD:
            self.halt(f"the server is gone: {done.error}", self.limits.grace_interrupted_s)

    # sending

    async def send_closed(self) -> None:
        begins = self.level.slots_for(*self.share)
        for begin_s in begins:
            self.hold(self.keep_busy(begin_s, len(begins)))

    async def keep_busy(self, begin_s: float, slots: int) -> None:
        """One slot of a closed loop."""
        while (wait_s := self.start_s + begin_s - monotonic()) > 0:
            if self.halted.is_set():
                return
            await asyncio.sleep(min(wait_s, 0.1))
        first = True
        while not self.halted.is_set() and (session := self.feed.take()) is not None:
            if first:
                first = False
                self.first_cohort.append(session.call.number)
                if len(self.first_cohort) == slots:
                    self.full_s = monotonic()
            await self.talk(session, monotonic())
        self.dry_s = self.dry_s or monotonic()

    async def send_open(self) -> None:
        alarm = Alarm(asyncio.get_running_loop())
        free = asyncio.Semaphore(max(self.level.most_in_flight // self.share[1], 1))
        last_s = self.level.duration_s
        self.full_s = self.start_s + self.level.ramp_s
        try:
            for due_s in self.level.due_for(*self.share):
                if (last_s is not None and due_s > last_s) or (session := self.feed.take()) is None:
                    break
                await alarm.until(self.start_s + due_s)
                if free.locked() and not self.notes:
                    most = self.level.most_in_flight
                    self.notes.append(
                        f"saturated: {most:,} requests in flight after {due_s:.1f} s; later ones waited"
                    )
                await free.acquire()
                if self.halted.is_set():
                    break
                task = self.hold(self.talk(session, self.start_s + due_s))
                task.add_done_callback(lambda _: free.release())
                if len(self.feed.ready) < LOW:
                    self.feed.fill(1)
        finally:
            self.dry_s = self.dry_s or monotonic()
            alarm.close()

    def hold(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task that the level waits for, and whose failure is the level's."""
        task = asyncio.get_running_loop().create_task(work)
        self.sessions.add(task)
        self.idle.clear()
        task.add_done_callback(self.let_go)
        return task

    def let_go(self, task: asyncio.Task[None]) -> None:
        self.sessions.discard(task)
        if not self.sessions:
            self.idle.set()
        if not task.cancelled() and task.exception() is not None:
            self.broken = self.broken or task.exception()
            self.halt("broken", 0.0)

    async def talk(self, session: Session, due_s: float) -> None:
        """All turns of a session, each after the answer to the one before."""
        while True:
            await self.send(session, due_s)
            if session.talk is None or self.halted.is_set() or session.following(self.level.dialect) is None:
                return
            due_s = monotonic()

    async def send(self, session: Session, due_s: float) -> None:
        self.progress.sent += 1
        self.progress.in_flight += 1
        path = self.level.dialect.path
        done = await exchange(self.pool, session.call, self.target, path, due_s, self.limits.timeout_s)
        self.progress.in_flight -= 1
        self.progress.done += 1
        self.watch(done)
        if session.talk is not None:
            session.answers.append(answer_of(done))
        self.digest.take(done)  # which takes its bytes away
        self.feed.fill(1)

    async def show_all(self, show: Callable[[Progress], None]) -> None:
        while True:
            await asyncio.sleep(SHOWN_EVERY_S)
            self.progress.elapsed_s = max(monotonic() - self.start_s, 0.0)
            show(self.progress)
