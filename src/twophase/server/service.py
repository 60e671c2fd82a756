"""The engine's loop in a thread of its own, and the door to it: any thread may ask, none waits for a pass."""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from twophase.server.engine import OpenEngine
from twophase.server.errors import TOO_LONG, ApiError
from twophase.server.events import EventQueue, Failed, SequenceRequest
from twophase.server.loop import Loop, failure, in_a_line, tell
from twophase.server.metrics import Snapshot

RETRY_AFTER_S = 1
PAUSE_S = 0.001  # where a policy lets everyone wait
SHUTTING_DOWN = Failed(503, "the server is shutting down", "shutting_down")
STOPPED = Failed(503, "the engine has failed for good: start the server anew", "engine_stopped")


class RefusedError(Exception):
    """No request is taken now: the queue is full, or the server shuts down."""

    def __init__(self, failed: Failed, retry_after_s: int | None = None) -> None:
        super().__init__(failed.message)
        self.failed, self.retry_after_s = failed, retry_after_s


class Service:
    """`max_queue`: sequences that may wait beyond those that run; further ones are refused at once."""

    def __init__(self, engine: OpenEngine, max_queue: int, policy: str = "decode-first") -> None:
        self.engine = engine
        self.draining = False
        self.stopped = False  # the engine's thread has died
        self._loop = Loop(engine, policy)
        self._max_queue = max_queue
        self._numbers = count()
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
        self._changed = threading.Condition()  # guards what follows
        self._inbox: deque[tuple[Callable[[], None], EventQueue | None]] = deque()  # (what to do, for whom)
        self._coming = 0  # sequences in the inbox
        self._waiting: int | None = None  # while some of them are taken in: those that waited before
        self._stopping = False

    @property
    def most_sequences(self) -> int:
        """Of one request, that an idle server takes."""
        return self._max_queue + self.engine.limits.max_sequences

    @property
    def refusal(self) -> Failed | None:
        """Why no request is taken, whatever the queue."""
        if self.stopped:
            return STOPPED
        return SHUTTING_DOWN if self.draining or self._stopping else None

    @property
    def idle(self) -> bool:
        with self._changed:
            return not (self._inbox or self._loop.live)

    def start(self) -> None:
        self._thread.start()

    def submit(self, asks: Sequence[SequenceRequest], outlet: EventQueue) -> list[int]:
        """Queue a request's sequences, all or none; their numbers. RefusedError where there is no room."""
        arrival_s = self.engine.clock.now()
        with self._changed:
            refusal = self.refusal
            if refusal is not None:
                raise RefusedError(refusal)
            waiting = self._count_waiting()
            if waiting + len(asks) > self._max_queue + self._loop.seats:
                self._loop.counters.refused["queue_full"] += 1
                full = f"the queue is full: {waiting} sequences wait, and {self._max_queue} may"
                raise RefusedError(Failed(429, full, "queue_full"), RETRY_AFTER_S)
            numbers = [next(self._numbers) for _ in asks]
            self._coming += len(asks)
            self._ask(lambda: self._take_in(numbers, asks, outlet, arrival_s), outlet)
        return numbers

    @contextmanager
    def counting_what_never_fits(self) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            if error.code == TOO_LONG:
                self._loop.counters.refused["never_fits"] += 1
            raise

    def cancel(self, numbers: Sequence[int]) -> None:
        """End those that are still here, before the next pass."""
        with self._changed:
            self._ask(lambda: self._loop.cancel(numbers))

    def drain(self) -> None:
        """Take no more requests."""
        self.draining = True

    def stop(self, patience_s: float) -> None:
        """End everyone and the loop, after the pass under way; wait for it so long."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(patience_s)

    def snapshot(self) -> Snapshot:
        loop = self._loop
        with self._changed:
            waiting = self._count_waiting()
        phases, recent = loop.meter.read(self.engine.clock.now())
        return Snapshot(
            running=loop.running,
            waiting=waiting,
            kv_usage=loop.used_blocks / self.engine.limits.blocks,
            counters=loop.counters,
            phases=phases,
            recent=recent,
            lost_s=self.engine.clock.lost_s,
        )

    def _ask(self, act: Callable[[], None], outlet: EventQueue | None = None) -> None:
        if not self.stopped:
            self._inbox.append((act, outlet))
            self._changed.notify()

    def _count_waiting(self) -> int:
        return (self._loop.waiting if self._waiting is None else self._waiting) + self._coming

    def _serve(self) -> None:
        try:
            while self._read_inbox():
                if not self._loop.step():
                    self.engine.clock.wait_until(self.engine.clock.now() + PAUSE_S)
            for act, _ in list(self._inbox):
                act()
            self._loop.cancel(list(self._loop.live), SHUTTING_DOWN)
        except BaseException as error:  # a panic in someone's Rust is no Exception
            print(
                f"twophase: the engine has failed for good: {in_a_line(error)}", file=sys.stderr, flush=True
            )
            self._end_all(failure(error))

    def _end_all(self, failed: Failed) -> None:
        """Tell everyone, and trust nothing else any more."""
        with self._changed:
            self.stopped = True
            outlets = [live.outlet for live in self._loop.live.values()]
            outlets += [outlet for _, outlet in self._inbox if outlet is not None]
            self._inbox.clear()
            self._loop.live.clear()
            self._coming, self._waiting = 0, None
        tell(outlets, failed)

    def _read_inbox(self) -> bool:
        """Do what was asked for; where nobody is here, wait for someone. False: stop."""
        while not self._stopping:
            with self._changed:
                if not (self._inbox or self._loop.live or self._stopping):
                    self.engine.clock.rest()
                    self._changed.wait()
                asked = list(self._inbox)
            for act, _ in asked:
                act()
                with self._changed:
                    self._inbox.popleft()  # only now, so that nobody takes this moment for idle
            if self._loop.live:
                return not self._stopping
        return False

    def _take_in(
        self, numbers: Sequence[int], asks: Sequence[SequenceRequest], outlet: EventQueue, arrival_s: float
    ) -> None:
        with self._changed:
            self._waiting = self._loop.waiting
        self._loop.add(numbers, asks, outlet, arrival_s)
        with self._changed:
            self._waiting = None
            self._coming -= len(asks)
