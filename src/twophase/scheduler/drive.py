"""The one loop: the same for the real engine and for a clock made of arithmetic."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from twophase.cost.pass_ import Pass
from twophase.records import Outcome, PassRecord
from twophase.scheduler.clock import Clock
from twophase.scheduler.log import Log
from twophase.scheduler.request import PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler


class Executor(Protocol):
    def run(self, pass_: Pass) -> PassOutcome:
        """Run the pass and say what each sequence kept and how many seconds it took."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What one pass gave."""

    record: PassRecord
    tokens: Mapping[int, Sequence[int]]  # by request, those that are still here or just finished
    finished: Sequence[int]


class PassFailed(Exception):  # noqa: N818
    """A pass raised. Its requests have ended as failed, their blocks are free, and others can go on.

    `ids`: those requests; `__cause__`: what was raised.
    """

    def __init__(self, ids: Sequence[int], cause: Exception) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.ids = ids
        self.__cause__ = cause


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
            while upcoming is not None and upcoming[0] <= clock.now():
                take_in(*upcoming, scheduler, log)
                upcoming = next(coming, None)
            progress = step(scheduler, executor, clock, log)
            if progress is not None:
                yield progress
            elif upcoming is not None:
                clock.wait_until(upcoming[0])
            elif len(scheduler):
                raise RuntimeError(f"the policy leaves {len(scheduler)} requests waiting for ever")
            else:
                return
    except PassFailed as failed:
        _end_all(scheduler, log, "failed", str(failed))
        raise failed.__cause__ or failed from None
    except Exception as error:
        _end_all(scheduler, log, "failed", f"{type(error).__name__}: {error}")
        raise
    except BaseException:
        _end_all(scheduler, log, "cancelled", "the run was stopped")
        raise


def take_in(moment: float, request: Request, scheduler: Scheduler, log: Log) -> str | None:
    """Queue a request that arrived at `moment`. Returns None, or why it is rejected; it has ended then."""
    note_cancelled(scheduler, log)  # its id may be one of theirs
    refusal = scheduler.add(request)
    log.arrived(request, moment)
    if refusal is not None:
        log.ended(request.id, "rejected", refusal)
    return refusal


def step(scheduler: Scheduler, executor: Executor, clock: Clock, log: Log) -> Progress | None:
    """Run the next pass. None where nobody is to run.

    Whoever was cancelled through `scheduler.cancel` since the last step ends as cancelled. PassFailed where
    the executor raises, or gives an outcome that doesn't answer the pass.
    """
    note_cancelled(scheduler, log)
    preemptions = scheduler.preemptions
    pass_ = scheduler.schedule()
    if scheduler.preemptions > preemptions:
        for request_id, request in log.open.items():
            request.preemptions = scheduler.preempted(request_id)
    if pass_ is None:
        return None
    started = clock.now()
    log.scheduled(pass_, started)
    waiting, running, used_blocks = scheduler.waiting, scheduler.running, scheduler.used_blocks
    try:
        outcome = executor.run(pass_)
        clock.advance(outcome.seconds)
        moment = clock.now()
        finished = scheduler.commit(pass_, outcome)
    except BaseException as error:
        ids = scheduler.abandon(pass_)
        if not isinstance(error, Exception):
            raise
        for request_id in ids:
            log.ended(request_id, "failed", f"{type(error).__name__}: {error}")
        raise PassFailed(ids, error) from error

    drafted = {span.sequence: span.logit_rows - 1 for span in pass_.spans}
    tokens = {
        sequence: kept
        for sequence, kept in outcome.tokens.items()
        if sequence in scheduler or sequence in finished  # else cancelled while the pass ran
    }
    for sequence, kept in tokens.items():
        log.produced(sequence, len(kept), drafted[sequence], moment)
    for request_id in finished:
        log.finished(request_id)
    record = log.passed(pass_, started, outcome.seconds, waiting, running, used_blocks)
    return Progress(record, tokens, finished)


def note_cancelled(scheduler: Scheduler, log: Log) -> None:
    """Whoever isn't here any more without an outcome was cancelled."""
    if len(scheduler) < len(log.open):
        for request_id in [each for each in log.open if each not in scheduler]:
            log.ended(request_id, "cancelled", "cancelled by the caller")


def _end_all(scheduler: Scheduler, log: Log, outcome: Outcome, reason: str) -> None:
    for request_id in list(log.open):
        scheduler.cancel(request_id)
        log.ended(request_id, outcome, reason)
