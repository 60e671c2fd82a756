"""What must not happen while times are taken, or must end in good order: collections, and Ctrl-C."""

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from twophase.ending import note

POLLED_EVERY_S = 0.1


@contextmanager
def garbage_left() -> Iterator[None]:
    """No collection: one over all records takes tens of milliseconds."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@contextmanager
def interrupts(called: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call this instead of ending the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int) -> None:
        note(number)
        called()

    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    caught = []
    for each in before:
        try:
            loop.add_signal_handler(each, hear, each)
        except (NotImplementedError, RuntimeError, ValueError):  # not on this platform
            continue
        caught.append(each)
    try:
        yield
    finally:
        for each in caught:
            loop.remove_signal_handler(each)
            signal.signal(each, before[each])


@contextmanager
def polled(stops: Callable[[], int], called: Callable[[], None]) -> Iterator[None]:
    """The same where another process catches the signals, and counts them."""

    async def watch() -> None:
        seen = 0
        while True:
            await asyncio.sleep(POLLED_EVERY_S)
            while seen < stops():
                seen += 1
                called()

    watcher = asyncio.get_running_loop().create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
