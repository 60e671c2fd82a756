"""A progress bar on stderr for what takes longer than a moment; nothing where nobody looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer

PATIENCE_S = 0.5


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Yields report(doing, share of the whole done). The bar comes after PATIENCE_S, whether or not something
    was reported meanwhile, and leaves at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    task = bar.add_task("beginning", total=1.0)
    turn, ended = Lock(), False

    def begin() -> None:
        with turn:
            if not ended:
                bar.start()

    def report(doing: str, share: float) -> None:
        bar.update(task, description=doing, completed=min(share, 0.999))  # at one its clock would stop

    patience = Timer(PATIENCE_S, begin)
    patience.daemon = True
    if not bar.disable:
        patience.start()
    try:
        yield report
    finally:
        with turn:
            ended = True
        patience.cancel()
        bar.stop()


@contextmanager
def compiling_shown(
    report: Callable[[str, float], None], what: str = "kernels, kept for later runs"
) -> Iterator[list[int]]:
    """The bar says so where something is compiled within, as in the first run of a version: what is yielded
    holds a number for each function that was."""
    from twophase.compile_cache import compiling_told

    compiled: list[int] = []

    def tell(number: int) -> None:
        compiled.append(number)
        report(f"compiling {what}: {number}", 0.0)

    with compiling_told(tell):
        yield compiled


@contextmanager
def simulator_shown(report: Callable[[str, float], None]) -> Iterator[list[int]]:
    """The same of the simulator's loops, which run as they stand where Numba isn't installed."""
    from twophase.scheduler.compiling import can_compile

    if not can_compile():
        yield []
        return
    with compiling_shown(report, "the simulator once, a minute or two") as compiled:
        yield compiled
