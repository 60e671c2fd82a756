"""Windows of a live server: one, or one after the other in a view that refreshes."""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from twophase.cli.progress import progress_bar
from twophase.counters.fetch import Target
from twophase.counters.page import Read
from twophase.counters.reading import Beside, Reading, read_pair
from twophase.counters.source import scrape
from twophase.errors import InputError

if TYPE_CHECKING:
    from rich.text import Text

TICK_S = 0.25
MOST_FAILURES, RETRY_S = 5, 1.0  # scrapes one after the other

Scraped = tuple[Read, float]


def one_window(own: Target, interval_s: float, beside: Beside) -> list[Reading]:
    first = scrape(own)
    with progress_bar() as report:
        wait(first[1] + interval_s, lambda left: report("counting", 1 - left / interval_s))
    return window(first, scrape(own), beside)


def window(first: Scraped, second: Scraped, beside: Beside) -> list[Reading]:
    return read_pair(first[0], second[0], second[1] - first[1], beside)


def wait(until_s: float, tell: Callable[[float], None]) -> None:
    while (left := until_s - time.monotonic()) > 0:
        tell(left)
        time.sleep(min(TICK_S, left))


def watched(own: Target, interval_s: float, beside: Beside, json: bool, plain: bool) -> int:
    """Until Ctrl-C, which ends with the last window; 0 where there was one."""
    from twophase.cli.counters import show

    past: list[list[Reading]] = []
    live = sys.stdout.isatty() and not (json or plain)
    try:
        (_view if live else partial(_stream, json=json))(own, interval_s, beside, past)
    except KeyboardInterrupt:
        if not past:
            raise
        if live:
            show(past[-1], json, plain)
    return 0


def _stream(own: Target, interval_s: float, beside: Beside, past: list[list[Reading]], json: bool) -> None:
    """A window after the other as text, or a JSON document a line."""
    from twophase.report.counters import plain as as_text
    from twophase.report.counters_json import to_json

    for readings in _windows(own, interval_s, beside, lambda left: None):
        past[:] = [readings]
        print(to_json(readings, None) if json else f"{as_text(readings)}\n", flush=True)


def _view(own: Target, interval_s: float, beside: Beside, past: list[list[Reading]]) -> None:
    from rich.console import Console
    from rich.live import Live

    from twophase.report.counters_live import KEPT, view

    def shown(left: float) -> "Text":
        return view(past, f"{own.url}  next window in {max(left, 0):.0f} s; Ctrl-C ends")

    screen = Live(shown(interval_s), console=Console(highlight=False), transient=True, auto_refresh=False)
    with screen:
        for readings in _windows(
            own, interval_s, beside, lambda left: screen.update(shown(left), refresh=True)
        ):
            past[:] = [*past[1 - KEPT :], readings]


def _windows(
    own: Target, interval_s: float, beside: Beside, tell: Callable[[float], None]
) -> Iterator[list[Reading]]:
    before = scrape(own)
    while True:
        wait(before[1] + interval_s, tell)
        after = _patiently(own)
        yield window(before, after, beside)
        before = after


def _patiently(own: Target) -> Scraped:
    """A server that is away for a moment, as in a restart, is asked again."""
    for _ in range(MOST_FAILURES - 1):
        try:
            return scrape(own)
        except InputError:
            time.sleep(RETRY_S)
    return scrape(own)
