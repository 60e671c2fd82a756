"""Windows of a live server: one, or one after the other in a view that refreshes."""

import sys
import time
from typing import TYPE_CHECKING

from twophase.cli.progress import progress_bar
from twophase.counters.fetch import Target
from twophase.counters.page import Read
from twophase.counters.reading import Beside, Reading, read_pair
from twophase.counters.source import scrape
from twophase.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

TICK_S = 0.25
MOST_FAILURES = 5  # scrapes one after the other

Scraped = tuple[Read, float]


def one_window(own: Target, interval_s: float, beside: Beside) -> list[Reading]:
    first = scrape(own)
    with progress_bar() as report:
        wait(first[1] + interval_s, lambda left: report("counting", 1 - left / interval_s))
    return window(first, scrape(own), beside)


def window(first: Scraped, second: Scraped, beside: Beside) -> list[Reading]:
    return read_pair(first[0], second[0], second[1] - first[1], beside)


def wait(until_s: float, tell: "object") -> None:
    while (left := until_s - time.monotonic()) > 0:
        if callable(tell):
            tell(left)
        time.sleep(min(TICK_S, left))


def watched(own: Target, interval_s: float, beside: Beside, json: bool, plain: bool) -> int:
    """Until Ctrl-C, which ends with the last window; 0 where there was one."""
    from twophase.cli.counters import show

    last: list[Reading] = []
    live = sys.stdout.isatty() and not (json or plain)
    try:
        if live:
            last = _view(own, interval_s, beside, last)
        else:
            _stream(own, interval_s, beside, json, last)
    except KeyboardInterrupt:
        if live and last:
            show(last, json, plain)
        if not last:
            raise
    return 0


def _stream(own: Target, interval_s: float, beside: Beside, json: bool, last: list[Reading]) -> None:
    """A window after the other as text, or a JSON document a line."""
    from twophase.report.counters import plain as as_text
    from twophase.report.counters_json import to_json

    before = scrape(own)
    while True:
        wait(before[1] + interval_s, None)
        before, readings = _next(own, before, beside)
        if readings:
            last[:] = readings
            print(to_json(readings, None) if json else f"{as_text(readings)}\n", flush=True)


def _view(own: Target, interval_s: float, beside: Beside, last: list[Reading]) -> list[Reading]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from twophase.report.counters import rich as as_rich

    def shown(left: float) -> "RenderableType":
        state = f"{own.url}  next window in {max(left, 0):.0f} s; Ctrl-C ends"
        return Group(*([as_rich(last), Text()] if last else []), Text(state, "dim"))

    before = scrape(own)
    with Live(
        shown(interval_s), console=Console(highlight=False), transient=True, auto_refresh=False
    ) as view:
        while True:
            wait(before[1] + interval_s, lambda left: view.update(shown(left), refresh=True))
            before, readings = _next(own, before, beside)
            if readings:
                last[:] = readings


def _next(own: Target, before: Scraped, beside: Beside) -> tuple[Scraped, list[Reading]]:
    """A server that is away for a moment, as in a restart, is asked again."""
    for attempt in range(MOST_FAILURES):
        try:
            after = scrape(own)
            break
        except InputError:
            if attempt == MOST_FAILURES - 1:
                raise
            time.sleep(1.0)
    return after, window(before, after, beside)
