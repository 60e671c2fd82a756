"""Ctrl-C and SIGTERM end a command alike, but for the word and the exit status: SIGTERM's where it came."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
INTERRUPTED = 128 + signal.SIGINT  # the status of whatever a signal ended, until `ended_by` says which

_heard: list[int] = []


def note(number: int) -> None:
    """Whoever hears such a signal tells so; Python's own KeyboardInterrupt is Ctrl-C's."""
    _heard.append(number)


def ended_by() -> tuple[str, int]:
    """(what to say, the exit status)."""
    number = signal.Signals(_heard[-1]) if _heard else signal.SIGINT
    return WORDS[number], 128 + number


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Within, SIGTERM raises KeyboardInterrupt too, so that what goes on leaves in order."""

    def hear(number: int, frame: object) -> None:
        note(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # elsewhere no signal is heard
        yield
        return
    _heard.clear()
    before = signal.signal(signal.SIGTERM, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
