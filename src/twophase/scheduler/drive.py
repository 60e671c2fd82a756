"""The one loop: the same for the real engine and for a clock made of arithmetic."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from twophase.cost.pass_ import Pass
from twophase.records import PassRecord
from twophase.scheduler.clock import Clock
from twophase.scheduler.log import Log
from twophase.scheduler.request import Outcome, Request
from twophase.scheduler.scheduler import Scheduler


class Executor(Protocol):
    def run(self, pass_: Pass) -> Outcome:
        """Run the pass and say what each sequence kept and how many seconds it took."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What one pass gave."""

    record: PassRecord
    tokens: Mapping[int, Sequence[int]]  # by request, those that are still here or just finished
    finished: Sequence[int]


def drive(
    arrivals: Iterable[tuple[float, Request]],
    scheduler: Scheduler,
    executor: Executor,
    clock: Clock,
    log: Log,
) -> Iterator[Progress]:
    """Serve `arrivals` (seconds, request; in order of time) to the end, one yield a pass.

    Everything is recorded in `log`. Whoever is cancelled through `scheduler.cancel`, at a yield or while a
    pass runs, ends as cancelled. So does everyone still here where the generator is closed or interrupted;
    where a pass raises, they end as failed and the error goes on to the caller. Blocks are free either way.
    """
    coming = iter(arrivals)
    upcoming = next(coming, None)
    try:
        while True:
            _note_cancelled(scheduler, log)
            while upcoming is not None and upcoming[0] <= clock.now():
                _take_in(upcoming, scheduler, log)
                upcoming = next(coming, None)
            pass_ = scheduler.schedule()
            if pass_ is not None:
                yield _run(pass_, scheduler, executor, clock, log)
            elif upcoming is not None:
                clock.wait_until(upcoming[0])
            else:
                return
    except BaseException as stop:
        failed = isinstance(stop, Exception)
        for request_id in list(log.open):
            scheduler.cancel(request_id)
            if failed:
                log.ended(request_id, "failed", f"{type(stop).__name__}: {stop}")
            else:
                log.ended(request_id, "cancelled", "the run was stopped")
        raise


def _take_in(arrival: tuple[float, Request], scheduler: Scheduler, log: Log) -> None:
    moment, request = arrival
    refusal = scheduler.add(request)
    log.arrived(request, moment)
    if refusal is not None:
        log.ended(request.id, "rejected", refusal)


def _run(pass_: Pass, scheduler: Scheduler, executor: Executor, clock: Clock, log: Log) -> Progress:
    started = clock.now()
    log.scheduled(pass_, started)
    outcome = executor.run(pass_)
    clock.advance(outcome.seconds)
    moment = clock.now()

    finished = scheduler.commit(pass_, outcome)
    tokens = {
        sequence: kept
        for sequence, kept in outcome.tokens.items()
        if sequence in scheduler or sequence in finished  # else cancelled while the pass ran
    }
    for sequence, kept in tokens.items():
        log.produced(sequence, len(kept), moment)
    for request_id in finished:
        log.finished(request_id)
    return Progress(log.passed(pass_, started, outcome.seconds), tokens, finished)


def _note_cancelled(scheduler: Scheduler, log: Log) -> None:
    if len(scheduler) < len(log.open):
        for request_id in [each for each in log.open if each not in scheduler]:
            log.ended(request_id, "cancelled", "cancelled by the caller")
