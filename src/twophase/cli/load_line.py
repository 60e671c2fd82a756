"""One live line on stderr while a load runs: plain letters, for drawing more would make the meter late."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twophase.units import count, duration, significant

if TYPE_CHECKING:
    from twophase.meter.level import Progress


@contextmanager
def load_line() -> "Iterator[Callable[[str, Progress], None] | None]":
    """Yields show(level, progress), or None where nobody looks; the line leaves at the end."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(level: str, progress: "Progress") -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{line(level, progress)[:width]:<{width}}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def line(level: str, progress: "Progress") -> str:
    """concurrency 8: 41 of 80, 7.3/s, 8 in flight, TTFT 102 ms, TPOT 20.0 ms, 2 failed."""
    planned = "" if progress.planned is None else f" of {count(progress.planned)}"
    parts = [f"{level}: {count(progress.done)}{planned}"]
    if progress.elapsed_s > 0:
        parts.append(f"{significant(progress.done / progress.elapsed_s)}/s")
    parts.append(f"{count(progress.in_flight)} in flight")
    if progress.ttft_s is not None:
        parts.append(f"TTFT {duration(progress.ttft_s)}")
    if progress.tpot_s is not None:
        parts.append(f"TPOT {duration(progress.tpot_s)}")
    if progress.failed:
        parts.append(f"{count(progress.failed)} failed")
    return ", ".join(parts)
