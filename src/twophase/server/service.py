"""The engine's loop, in a thread of its own: takes requests in, runs passes, hands out what they gave."""

import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from twophase.cost.pass_ import Pass
from twophase.engine.sampling import TokenLogprobs
from twophase.errors import InputError
from twophase.records import RequestRecord
from twophase.scheduler.log import Log
from twophase.scheduler.request import Outcome, Request
from twophase.scheduler.scheduler import Scheduler
from twophase.server.counters import Counters, PhaseMeter
from twophase.server.engine import OpenEngine
from twophase.server.events import Ask, Event, Failed, Outlet, Said, deliver
from twophase.server.metrics import Snapshot
from twophase.server.texts import Texts

RETRY_AFTER_S = 1
SHUTTING_DOWN = Failed(503, "the server is shutting down", "shutting_down")


class RefusedError(Exception):
    """No request is taken now: the queue is full, or the server shuts down."""

    def __init__(self, failed: Failed, retry_after_s: int | None = None) -> None:
        super().__init__(failed.message)
        self.failed, self.retry_after_s = failed, retry_after_s


@dataclass(slots=True)
class Live:
    """A sequence that is waiting or running."""

    ask: Ask
    outlet: Outlet
    choice: int
    record: RequestRecord
    cached_tokens: int = 0
    first_tokens: int = 0  # that came at once with the first


class Service:
    """`max_queue`: sequences that may wait beyond those that run; further ones are refused at once."""

    def __init__(self, engine: OpenEngine, max_queue: int, policy: str = "decode-first") -> None:
        self.engine = engine
        self.counters = Counters()
        self.meter = PhaseMeter(engine.price)
        self.draining = False
        self._max_queue, self._policy = max_queue, policy
        self._scheduler = Scheduler(engine.limits, policy)
        self._texts = Texts(engine.executor, engine.tokenizer)
        self._log = self._new_log()
        self._live: dict[int, Live] = {}
        self._numbers = count()
        # What other threads touch, under the lock:
        self._lock = threading.Lock()
        self._called = threading.Condition(self._lock)
        self._inbox: deque[Callable[[], None]] = deque()
        self._coming = 0  # sequences in the inbox
        self._open = 0  # sequences that were taken and have not ended
        self._left_waiting = 0  # sequences that the last plan left in the queue
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)

    # From any thread

    def start(self) -> None:
        self._thread.start()

    def submit(self, asks: Sequence[Ask], outlet: Outlet) -> list[int]:
        """Queue a request's sequences, all or none; their numbers. RefusedError where there is no room."""
        arrival_s = self.engine.clock.now()
        with self._called:
            if self.draining or self._stopping:
                raise RefusedError(SHUTTING_DOWN)
            free = (
                0
                if self._left_waiting
                else max(0, self.engine.limits.max_sequences - self._scheduler.running)
            )
            if self._left_waiting + self._coming + len(asks) > self._max_queue + free:
                self.counters.refused["queue_full"] += 1
                raise RefusedError(
                    Failed(
                        429,
                        f"the queue is full: {self._left_waiting + self._coming} sequences wait",
                        "queue_full",
                    ),
                    RETRY_AFTER_S,
                )
            numbers = [next(self._numbers) for _ in asks]
            self._coming += len(asks)
            self._open += len(asks)
            self._inbox.append(lambda: self._take_in(numbers, asks, outlet, arrival_s))
            self._called.notify()
        return numbers

    @property
    def most_sequences(self) -> int:
        """Of one request, that an idle server takes."""
        return self._max_queue + self.engine.limits.max_sequences

    def cancel(self, numbers: Sequence[int], failed: Failed | None = None) -> None:
        """End those that are still here before the next pass; `failed` is what their readers are told."""
        with self._called:
            self._inbox.append(lambda: self._cancel(numbers, failed))
            self._called.notify()

    def drain(self) -> None:
        """Take no more requests."""
        self.draining = True

    @property
    def idle(self) -> bool:
        return self._open == 0

    def stop(self, patience_s: float) -> None:
        """End everyone and the loop; waits so long for a pass under way."""
        with self._called:
            self._stopping = True
            self._called.notify()
        self._thread.join(patience_s)

    def snapshot(self) -> Snapshot:
        scheduler = self._scheduler
        totals, recent = self.meter.read(self.engine.clock.now())
        self.counters.preemptions = max(self.counters.preemptions, scheduler.preemptions)
        return Snapshot(
            running=scheduler.running,
            waiting=scheduler.waiting + self._coming,
            kv_usage=1 - scheduler.free_blocks / self.engine.limits.blocks,
            counters=self.counters,
            phases=totals,
            recent=recent,
        )

    # From the engine's thread alone

    def _serve(self) -> None:
        while self._read_inbox():
            pass_: Pass | None = None
            try:
                pass_ = self._scheduler.schedule()
                if pass_ is not None:
                    self._run(pass_)
            except Exception as error:
                self._recover(error, pass_)
        self._cancel(list(self._live), SHUTTING_DOWN)

    def _read_inbox(self) -> bool:
        """Do what was asked for; while nobody is here, wait for it. False: stop."""
        while True:
            with self._called:
                self._left_waiting = self._scheduler.waiting
                while not self._inbox and not self._stopping and not len(self._scheduler):
                    self.engine.clock.rest()
                    self._called.wait()
                asked = list(self._inbox)
                self._inbox.clear()
            for act in asked:
                act()
            if self._stopping:
                return False
            if len(self._scheduler):
                return True

    def _take_in(self, numbers: Sequence[int], asks: Sequence[Ask], outlet: Outlet, arrival_s: float) -> None:
        with self._lock:
            self._coming -= len(asks)
        self.counters.request_n.observe(len(asks))
        for choice, (number, ask) in enumerate(zip(numbers, asks, strict=True)):
            try:
                refusal = self._add(number, ask, outlet, choice, arrival_s)
            except Exception as error:
                refusal = str(error) if isinstance(error, InputError) else _told(error)
            if refusal is not None:
                self._cancel(numbers[:choice], None)
                with self._lock:
                    self._open -= len(asks) - choice
                self.counters.refused["never_fits"] += 1
                self._deliver({outlet: [Failed(400, refusal, "context_length_exceeded")]})
                return

    def _add(self, number: int, ask: Ask, outlet: Outlet, choice: int, arrival_s: float) -> str | None:
        executor = self.engine.executor
        executor.begin(number, ask.prompt_ids, ask.sampling)
        request = Request(
            id=number,
            prompt_tokens=len(ask.prompt_ids),
            max_output=ask.max_output,
            priority=ask.priority,
            block_keys=executor.prompt_keys(number),
        )
        refusal = self._scheduler.add(request)
        if refusal is not None:
            executor.end(number)
            return refusal
        self._texts.begin(number, ask)
        self._log.arrived(request, arrival_s)
        self._live[number] = Live(ask, outlet, choice, self._log.open[number])
        self.counters.request_max_output.observe(ask.max_output)
        return None

    def _cancel(self, numbers: Iterable[int], failed: Failed | None) -> None:
        here = [number for number in numbers if number in self._live]
        outlets = {self._live[number].outlet for number in here}
        for number in here:
            self._scheduler.cancel(number)
            self._log.ended(number, "failed" if failed else "cancelled", failed.message if failed else "")
            self._leave(number, "error" if failed else "abort")
        if failed is not None:
            self._deliver({outlet: [failed] for outlet in outlets})

    def _leave(self, number: int, reason: str) -> None:
        live = self._live.pop(number)
        self._texts.end(number)
        self.engine.executor.end(number)
        self.counters.ended[reason] += 1
        if reason in ("stop", "length"):
            self._count_finished(live)
        with self._lock:
            self._open -= 1

    def _run(self, pass_: Pass) -> None:
        clock, log = self.engine.clock, self._log
        self._left_waiting = self._scheduler.waiting
        started = clock.now()
        for span in pass_.spans:
            live = self._live[span.sequence]
            if live.record.first_scheduled_s is None:
                live.record.cached_tokens = live.cached_tokens = span.context
                self.counters.prefix_queries += len(live.ask.prompt_ids)
                self.counters.prefix_hits += span.context
        log.scheduled(pass_, started)
        outcome = self._texts.run(pass_)
        clock.advance(outcome.seconds)
        now = clock.now()
        finished = set(self._scheduler.commit(pass_, outcome))
        self.meter.passed(pass_, outcome.seconds, now)
        self.counters.pass_tokens.observe(pass_.rows)
        self._hand_out(pass_, outcome, finished, now)
        log.passes.clear()
        log.requests.clear()

    def _hand_out(self, pass_: Pass, outcome: Outcome, finished: set[int], now: float) -> None:
        batches: dict[Outlet, list[Event]] = defaultdict(list)
        for span in pass_.spans:
            number = span.sequence
            ids = outcome.tokens.get(number, ())
            if not ids and number not in finished:
                continue
            live = self._live[number]
            if span.logit_rows > 1:
                self.counters.verified(span.logit_rows - 1, max(0, len(ids) - 1))
            self._count_tokens(live, len(ids), now)
            text, stop = self._texts.take(number, last=number in finished)
            reason = None
            if number in finished:
                reason = "stop" if number in outcome.stopped or stop is not None else "length"
            batches[live.outlet].append(
                Said(
                    choice=live.choice,
                    ids=ids,
                    text=text,
                    logprobs=self._logprobs(live, number, len(ids)),
                    finish=reason,
                    stop=stop if stop is not None else ids[-1] if reason == "stop" and ids else None,
                    cached_tokens=live.cached_tokens,
                )
            )
            self._log.produced(number, len(ids), now)
            if reason is not None:
                self._log.finished(number)
                self._leave(number, reason)
        self._deliver(batches)

    def _logprobs(self, live: Live, number: int, new: int) -> Sequence[TokenLogprobs]:
        if live.ask.sampling.logprobs is None or not new:
            return ()
        before = len(live.record.token_s)
        return self.engine.executor.logprobs(number)[before : before + new]

    def _count_tokens(self, live: Live, new: int, now: float) -> None:
        counters, record = self.counters, live.record
        counters.output_tokens += new
        if record.token_s:
            counters.gap_s.observe(now - record.token_s[-1])
        elif new:
            live.first_tokens = new
            counters.ttft_s.observe(now - record.arrival_s)
            counters.prompt_tokens += record.prompt_tokens
            counters.cached_tokens += live.cached_tokens

    def _count_finished(self, live: Live) -> None:
        counters, record = self.counters, live.record
        counters.request_prompt_tokens.observe(record.prompt_tokens)
        counters.request_output_tokens.observe(len(record.token_s))
        first_pass, times = record.first_scheduled_s, record.token_s
        if first_pass is None or not times:
            return
        counters.queue_s.observe(first_pass - record.arrival_s)
        counters.prefill_s.observe(times[0] - first_pass)
        counters.decode_s.observe(times[-1] - times[0])
        counters.inference_s.observe(times[-1] - first_pass)
        counters.e2e_s.observe(times[-1] - record.arrival_s)
        if later := len(times) - live.first_tokens:
            counters.tpot_s.observe((times[-1] - times[0]) / later)

    def _recover(self, error: Exception, pass_: Pass | None) -> None:
        """A pass raised: its requests end with the error, everyone else goes on."""
        told = _told(error)
        print(f"twophase: a pass failed: {told}", file=sys.stderr, flush=True)
        failed = Failed(500, f"the engine failed while it ran this request: {told}", "engine_error")
        try:
            self._cancel([span.sequence for span in pass_.spans] if pass_ else list(self._live), failed)
        except Exception:  # the books themselves are lost: begin new ones
            pass_ = None
        if pass_ is None:
            self._begin_anew(failed)

    def _begin_anew(self, failed: Failed) -> None:
        outlets = {live.outlet for live in self._live.values()}
        for number in self._live:
            self._texts.end(number)
            self.engine.executor.end(number)
        with self._lock:
            self._open -= len(self._live)
        self.counters.ended["error"] += len(self._live)
        self._live.clear()
        self._scheduler = Scheduler(self.engine.limits, self._policy)
        self._log = self._new_log()
        self._deliver({outlet: [failed] for outlet in outlets})

    def _new_log(self) -> Log:
        return Log(lambda pass_: (0.0, 0.0))  # passes are priced by the meter

    def _deliver(self, batches: dict[Outlet, list[Event]]) -> None:
        if not batches:
            return
        loop = next(iter(batches)).loop
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(deliver, batches)


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
