"""Timers of the kernel, to tens of microseconds: event loops round theirs to milliseconds."""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable
from time import monotonic

CLOCK_MONOTONIC = 1
TFD_NONBLOCK_CLOEXEC = 0o2004000
TFD_TIMER_ABSTIME = 1


class Interval(ctypes.Structure):
    """struct itimerspec: the interval, then the first instant, each in seconds and nanoseconds."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


class KernelTimer:
    """Calls back at an absolute instant of time.monotonic(); elsewhere than on Linux by the loop's timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, called: Callable[[], None]) -> None:
        self.loop = loop
        self.called = called
        self.handle: asyncio.TimerHandle | None = None
        self.descriptor = -1
        if sys.platform == "linux":
            self.libc = ctypes.CDLL(None, use_errno=True)
            self.descriptor = self.libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK_CLOEXEC)
        if self.descriptor >= 0:
            loop.add_reader(self.descriptor, self.rang)

    def set(self, at_s: float) -> None:
        if self.descriptor < 0:
            self.handle = self.loop.call_later(max(at_s - monotonic(), 0.0), self.called)
            return
        whole, nanoseconds = divmod(max(round(at_s * 1e9), 1), 1_000_000_000)  # zero would disarm it
        value = Interval(0, 0, whole, nanoseconds)
        self.libc.timerfd_settime(self.descriptor, TFD_TIMER_ABSTIME, ctypes.byref(value), None)

    def rang(self) -> None:
        try:
            os.read(self.descriptor, 8)
        except BlockingIOError:  # set anew between the wake-up and here
            return
        self.called()

    def close(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
        if self.descriptor >= 0:
            self.loop.remove_reader(self.descriptor)
            os.close(self.descriptor)
            self.descriptor = -1


class Alarm:
    """Awaits absolute instants with a timer of the kernel: one waiter at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.timer = KernelTimer(loop, self.ring)
        self.waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def until(self, at_s: float) -> None:
        while at_s > monotonic():
            self.waiter = self.loop.create_future()
            self.timer.set(at_s)
            await self.waiter

    def close(self) -> None:
        self.timer.close()
