"""What the engine's thread does: takes sequences in, runs passes, hands out what they gave."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from twophase.cost.pass_ import Pass
from twophase.engine.sampling import TokenLogprobs
from twophase.errors import InputError
from twophase.records import RequestRecord
from twophase.scheduler.drive import PassFailed, Progress, note_cancelled, step, take_in
from twophase.scheduler.log import Log
from twophase.scheduler.request import PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler
from twophase.server.counters import Counters
from twophase.server.engine import OpenEngine
from twophase.server.errors import TOO_LONG
from twophase.server.events import Delta, Event, EventQueue, Failed, SequenceRequest, deliver
from twophase.server.phase_meter import PhaseMeter
from twophase.server.texts import Texts


@dataclass(frozen=True, slots=True)
class Active:
    """A sequence that is waiting or running."""

    ask: SequenceRequest
    outlet: EventQueue
    choice: int
    record: RequestRecord


class Loop:
    """Owns scheduler, executor and records. Everything but its properties is one thread's."""

    def __init__(self, engine: OpenEngine, policy: str) -> None:
        self.engine = engine
        self.counters = Counters()
        self.meter = PhaseMeter(engine.price)
        self.live: dict[int, Active] = {}
        self._policy = policy
        self._last: tuple[Pass, PassOutcome] = Pass(()), PassOutcome({})
        self._left_some = False  # the last plan had no room for everyone
        self._texts = Texts(engine.executor, engine.tokenizer)
        self._begin_books()

    @property
    def running(self) -> int:
        return self._scheduler.running

    @property
    def waiting(self) -> int:
        return self._scheduler.waiting

    @property
    def seats(self) -> int:
        """Sequences that the next pass can take in, as far as anyone knows."""
        full = self._left_some and self.waiting
        return 0 if full else self.engine.limits.max_sequences - self.running

    @property
    def used_blocks(self) -> int:
        return self._scheduler.used_blocks

    def add(
        self, numbers: Sequence[int], asks: Sequence[SequenceRequest], outlet: EventQueue, arrival_s: float
    ) -> None:
        """A request's sequences: all are queued, or its reader is told why none is."""
        self.counters.request_n.observe(len(asks))
        for choice, (number, ask) in enumerate(zip(numbers, asks, strict=True)):
            try:
                refusal = self._add(number, ask, outlet, choice, arrival_s)
                failed = None if refusal is None else Failed(400, refusal, TOO_LONG)
            except InputError as error:
                failed = Failed(400, str(error))
            except Exception as error:
                failed = failure(error)
            if failed is not None:
                self.cancel(numbers[:choice])
                tell([outlet], failed)
                return

    def cancel(self, numbers: Iterable[int], failed: Failed | None = None) -> None:
        """Those that are still here end; `failed` is what their readers are told, if anything."""
        here = [number for number in numbers if number in self.live]
        outlets = [self.live[number].outlet for number in here]
        for number in here:
            self._scheduler.cancel(number)
            self._leave(number, "error" if failed else "abort")
        note_cancelled(self._scheduler, self._log)
        if failed is not None:
            tell(outlets, failed)

    def step(self) -> bool:
        """The next pass. False where there was none to run."""
        try:
            done = step(self._scheduler, self, self.engine.clock, self._log)
            if done is not None:
                self._hand_out(done)
            return done is not None
        except PassFailed as failed:
            told = failure(failed.__cause__ or failed)
            print(f"twophase: a pass failed: {told.message}", file=sys.stderr, flush=True)
            self._fail(failed.ids, told)
        except Exception as error:  # the books themselves are lost: everyone ends, and new ones begin
            told = failure(error)
            print(f"twophase: the scheduler failed: {told.message}", file=sys.stderr, flush=True)
            self._count()
            self.counters.began_anew()
            self._begin_books()
            self._fail(list(self.live), told)
        finally:
            self._log.passes.clear()  # what has ended is counted; a server keeps no lists
            self._log.requests.clear()
        return True

    def run(self, pass_: Pass) -> PassOutcome:
        """Of the pass that was just scheduled: what `step` takes for the executor."""
        self._left_some = self._scheduler.waiting > 0
        self._count()
        outcome = self._texts.run(pass_)
        self._last = pass_, outcome
        return outcome

    def _add(
        self, number: int, ask: SequenceRequest, outlet: EventQueue, choice: int, arrival_s: float
    ) -> str | None:
        executor, refusal = self.engine.executor, None
        executor.begin(number, ask.prompt_ids, ask.sampling)
        try:
            request = Request(
                id=number,
                prompt_tokens=len(ask.prompt_ids),
                max_output=ask.max_output,
                priority=ask.priority,
                block_keys=executor.prompt_keys(number),
            )
            self._texts.begin(number, ask)
            refusal = take_in(arrival_s, request, self._scheduler, self._log)
            if refusal is None:
                self.live[number] = Active(ask, outlet, choice, self._log.open[number])
                self.counters.request_max_output.observe(ask.max_output)
        finally:
            if number not in self.live:  # refused, or something raised
                self._scheduler.cancel(number)
                self._texts.end(number)
                executor.end(number)
        return refusal

    def _leave(self, number: int, reason: str) -> None:
        live = self.live.pop(number)
        self._texts.end(number)
        self.engine.executor.end(number)
        self.counters.ended[reason] += 1
        if reason in ("stop", "length"):
            self.counters.completed(live.record)

    def _hand_out(self, done: Progress) -> None:
        now, finished = self.engine.clock.now(), set(done.finished)
        pass_, outcome = self._last
        self.counters.pass_tokens.observe(pass_.rows)
        prompts = [self.live[span.sequence].record.prompt_tokens for span in pass_.spans]
        self.meter.passed(pass_, prompts, done.record.seconds, now)
        batches: dict[EventQueue, list[Event]] = defaultdict(list)
        try:
            for span in pass_.spans:
                number = span.sequence
                ids = done.tokens.get(number, ())
                if not ids and number not in finished:
                    continue
                live = self.live[number]
                if span.logit_rows > 1:
                    self.counters.verified(span.logit_rows - 1, max(0, len(ids) - 1))
                self.counters.came(live.record, len(ids))
                said = self._said(number, live, ids, number in finished, number in outcome.stopped)
                batches[live.outlet].append(said)
                if said.finish is not None:
                    self._leave(number, said.finish)
        finally:  # who has left is not among those that are told of an error
            _hand_over(batches)

    def _said(self, number: int, live: Active, ids: Sequence[int], finished: bool, stopped: bool) -> Delta:
        text, stop_string = self._texts.take(number, last=finished)
        logprobs: Sequence[TokenLogprobs] = ()
        if live.ask.sampling.logprobs is not None:
            end = len(live.record.token_s)  # a stop string may have cut what the executor kept
            logprobs = self.engine.executor.logprobs(number)[end - len(ids) : end]
        stop: str | int | None = stop_string
        if stop is None and stopped and ids and ids[-1] not in self.engine.tokenizer.eos_ids:
            stop = ids[-1]
        return Delta(
            choice=live.choice,
            ids=ids,
            text=text,
            logprobs=logprobs,
            finish=("stop" if stopped or stop_string else "length") if finished else None,
            stop=stop,
            cached_tokens=live.record.cached_tokens,
        )

    def _fail(self, numbers: Sequence[int], failed: Failed) -> None:
        outlets = [self.live[number].outlet for number in numbers]
        for number in numbers:
            self._leave(number, "error")
        tell(outlets, failed)

    def _count(self) -> None:
        books = self._scheduler
        self.counters.scheduled(books.preemptions, books.prefix_queries, books.prefix_hits)

    def _begin_books(self) -> None:
        self._scheduler = Scheduler(self.engine.limits, self._policy)
        self._log = Log(lambda pass_: (0.0, 0.0))  # passes are priced by the meter, some at a time


def tell(outlets: Iterable[EventQueue], failed: Failed) -> None:
    _hand_over({outlet: [failed] for outlet in outlets})


def _hand_over(batches: dict[EventQueue, list[Event]]) -> None:
    """One call for all that a pass gave."""
    if batches:
        with suppress(RuntimeError):  # the event loop is closed: nobody listens any more
            next(iter(batches)).loop.call_soon_threadsafe(deliver, batches)


def failure(error: BaseException) -> Failed:
    return Failed(500, f"the engine failed while it ran this request: {in_a_line(error)}", "engine_error")


def in_a_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
