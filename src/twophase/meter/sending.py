"""Sends what is due: the only owner of a level's state while it runs."""

import asyncio
from collections.abc import Coroutine
from time import monotonic

from twophase.meter.answers import answer_of
from twophase.meter.digest import Digest
from twophase.meter.exchange import Pool, exchange
from twophase.meter.feed import Feed, Session
from twophase.meter.kernel_timer import Alarm
from twophase.meter.level import Level, Limits, Progress
from twophase.meter.records import Exchange, Target

DEAD = 10  # refused connections in a row: nobody is there any more
LEAST_SILENCE_S, TTFTS = 1.0, 10.0  # of a server that has stopped answering: seconds, and usual TTFTs
LOW = 64  # requests ready: below that, more are encoded between two sends


class Sending:
    """A worker's share (which, of how many) of a level under way."""

    def __init__(
        self, pool: Pool, target: Target, level: Level, limits: Limits, share: tuple[int, int]
    ) -> None:
        self.pool = pool
        self.target = target
        self.level = level
        self.limits = limits
        self.share = share
        self.feed = Feed(level.sessions_for(*share))
        self.feed.fill()
        self.progress = Progress(planned=level.planned(*share))
        self.digest = Digest(level.dialect.endpoint, self.progress)
        self.start_s = 0.0
        self.sessions: set[asyncio.Task[None]] = set()
        self.idle = asyncio.Event()  # no session is under way
        self.idle.set()
        self.halted = asyncio.Event()  # nothing more is sent
        self.grace_s = limits.grace_s
        self.partial = ""
        self.broken: BaseException | None = None
        self.refused = 0  # in a row
        self.ended_s = 0.0  # when the last byte of a reply came; 0: none did
        self.first_cohort: list[int] = []
        self.full_s: float | None = None
        self.dry_s: float | None = None
        self.notes: list[str] = []

    async def send_all(self) -> None:
        """Until everything has been sent, in an open loop; in a closed one its slots go on by themselves."""
        if self.level.open_loop:
            await self.send_open()
        else:
            begins = self.level.slots_for(*self.share)
            for begin_s in begins:
                self.hold(self.keep_busy(begin_s, len(begins)))

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

    def silence_s(self) -> float:
        """For how long not a byte has come, since the last one of a reply."""
        under_way = [each.exchange for each in self.pool.busy if each.exchange is not None]
        last = [each.reads[-1][0] for each in under_way if each.reads]
        return monotonic() - max([*last, self.ended_s])

    def gone_silent(self) -> str:
        """Why the run is partial, where a server that had answered has stopped to; a slow one has not."""
        silence_s, usual_s = self.silence_s(), self.progress.ttft_s
        if not self.ended_s or silence_s < max(self.grace_s, LEAST_SILENCE_S, TTFTS * (usual_s or 0.0)):
            return ""
        return f"the server stopped answering: not a byte came in the last {silence_s:.1f} s"

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
        began_s = monotonic()
        try:
            done = await exchange(self.pool, session.call, self.target, path, due_s, self.limits.timeout_s)
        except asyncio.CancelledError:  # before it had a connection
            done = Exchange(session.call, due_s, began_s, sent_s=monotonic(), closing="cancelled")
        self.progress.in_flight -= 1
        self.progress.done += 1
        if done.reads:
            self.ended_s = max(self.ended_s, done.reads[-1][0])
        self.watch(done)
        if session.talk is not None:
            session.answers.append(answer_of(done))
        self.digest.take(done)  # which takes its bytes away
        self.feed.fill(1)
