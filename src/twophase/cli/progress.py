"""A progress bar on stderr for what takes longer than a second; nothing where nobody looks."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 1.0


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Yields report(doing, share of the whole done). The bar comes after a second and leaves at the end."""
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
    task = bar.add_task("", total=1.0)
    started = time.perf_counter()

    def report(doing: str, share: float) -> None:
        bar.update(task, description=doing, completed=min(share, 0.999))  # at one its clock would stop
        if not bar.live.is_started and time.perf_counter() - started > PATIENCE_S:
            bar.start()

    try:
        yield report
    finally:
        bar.stop()
