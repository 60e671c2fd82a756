"""The work of a plan on all cores, or on a Ray cluster: pieces go out in order and come back in order."""

import multiprocessing
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from twophase.errors import InputError
from twophase.plan.candidate import Candidate, Kind, Layout
from twophase.plan.demand import Demand, demand_of
from twophase.plan.judging import Judged, judge_layout
from twophase.plan.predicted import e2e_guess_s
from twophase.plan.question import Question
from twophase.plan.setups import Setups
from twophase.plan.trial import Trial, try_candidate
from twophase.workload.workload import Workload


class Judge(NamedTuple):
    layout: Layout


class Try(NamedTuple):
    candidate: Candidate
    workload: Workload | None = None  # instead of the question's


class Guess(NamedTuple):
    kind: Kind
    counts: tuple[int, ...]


Piece = Judge | Try | Guess
Work = Callable[[Sequence[Piece]], Iterator[Any]]  # results in the order of the pieces


class Worker:
    """What a process keeps between pieces."""

    def __init__(self, question: Question) -> None:
        self.setups = Setups(question)
        self.demand: Demand = demand_of(question.workload, question.slo, question.prefix_cache)

    def do(self, piece: Piece) -> list[Judged] | Trial | tuple[float, ...]:
        if isinstance(piece, Judge):
            return judge_layout(self.setups, piece.layout, self.demand)
        if isinstance(piece, Guess):
            return e2e_guess_s(self.setups, piece.kind, piece.counts)
        return try_candidate(self.setups, piece.candidate, piece.workload)


class RemoteWorker(Worker):
    """What it is given is pickled by us: arrays that come through Ray can't be written, and compiled code
    would be compiled for those again."""

    def __init__(self, question: bytes) -> None:
        super().__init__(pickle.loads(question))

    def do_pickled(self, piece: bytes) -> Any:
        return self.do(pickle.loads(piece))


_here: dict[str, Worker] = {}  # of a worker process


def _begin(question: Question) -> None:
    _here["worker"] = Worker(question)


def _do(piece: Piece) -> Any:
    return _here["worker"].do(piece)


@contextmanager
def local(question: Question, processes: int) -> Iterator[Work]:
    """One process is this one itself."""
    if processes == 1:
        worker = Worker(question)
        yield lambda pieces: map(worker.do, pieces)
        return
    context = multiprocessing.get_context("spawn")  # compiled code and threads don't go through a fork
    with ended_in_order(), ProcessPoolExecutor(processes, context, _begin, (question,)) as pool:

        def work(pieces: Sequence[Piece]) -> Iterator[Any]:
            return pool.map(_do, pieces)

        try:
            yield work
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Whom SIGTERM ends within, goes as after an exception: its processes and their semaphores, too.

    Where somebody listens already, as the command line does, it is theirs to raise one.
    """

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    alone = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not alone or threading.current_thread() is not threading.main_thread():  # elsewhere none is heard
        yield
        return
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def on_ray(question: Question, address: str) -> Iterator[Work]:
    """An actor a core of the cluster, which keeps what it made; `local` for a Ray of this machine alone."""
    ray = connected(address)
    pool_of = import_module("ray.util").ActorPool
    kept, actor = ray.put(pickle.dumps(question)), ray.remote(num_cpus=1)(RemoteWorker)
    actors = [actor.remote(kept) for _ in range(max(1, int(ray.cluster_resources().get("CPU", 1))))]

    def work(pieces: Sequence[Piece]) -> Iterator[Any]:
        pickled = [pickle.dumps(each) for each in pieces]
        found: Iterator[Any] = pool_of(actors).map(lambda one, each: one.do_pickled.remote(each), pickled)
        return found

    try:
        yield work
    finally:
        ray.shutdown()


def connected(address: str) -> Any:
    try:
        ray = import_module("ray")
    except ModuleNotFoundError:
        raise InputError(
            f"--ray {address} needs Ray: install the extra ray (pip install 'twophase[ray]')"
        ) from None
    try:
        if address == "local":
            ray.init(ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
        else:
            ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except Exception as error:
        raise InputError(f"--ray {address}: no cluster answers there: {str(error).splitlines()[0]}") from None
    return ray
