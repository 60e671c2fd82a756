"""The meter's own error: how late its loop reads and sends, and what it takes of a core."""

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import monotonic, process_time

from twophase.meter.kernel_timer import KernelTimer
from twophase.meter.records import Lag, Reply

INTERVAL_S = 2e-3
MOST_LAG = 0.05  # of the median TTFT: a later reading makes the figures the meter's, not the server's
MOST_CPU = 0.9  # of a core


class LagProbe:
    """A ticking timer: what is late of it is what bytes that came at that instant waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.at = array("d")  # when each tick was handled
        self.lag = array("d")
        self.began_s = monotonic()
        self.cpu_s = process_time()
        self.timer = KernelTimer(loop, self.tick)
        self.due_s = self.began_s + INTERVAL_S
        self.timer.set(self.due_s)

    def tick(self) -> None:
        now = monotonic()
        self.at.append(now)
        self.lag.append(max(now - self.due_s, 0.0))
        self.due_s = max(self.due_s + INTERVAL_S, now + INTERVAL_S / 4)  # ticks that were missed are one
        self.timer.set(self.due_s)

    def close(self) -> float:
        """Stop; the share of a core that the process took since the beginning."""
        self.timer.close()
        return (process_time() - self.cpu_s) / max(monotonic() - self.began_s, 1e-9)

    def around(self, at_s: float) -> float:
        """The largest lag of the ticks next to an instant, in seconds: no read then was later.

        What held the read up held up the tick before it, or the one that came due meanwhile and is the next.
        """
        begin = bisect_left(self.at, at_s - INTERVAL_S)
        end = bisect_left(self.at, at_s) + 1
        return max(self.lag[begin:end], default=0.0)


def with_read_lag(replies: Iterable[Reply], probe: LagProbe) -> list[Reply]:
    """Each reply with the bound on how late its first and its last token may have been read."""
    return [
        replace(
            reply,
            read_lag_s=max(
                (probe.around(at) for at in (reply.first_token_s, reply.last_token_s) if at), default=0.0
            ),
        )
        for reply in replies
    ]


def lag_of(lags: Sequence[float], cpu_share: float, replies: Iterable[Reply]) -> Lag:
    """A run's summary from all ticks of all workers; dispatch counts what was sent at all."""
    ordered = sorted(lags)
    dispatch = sorted(reply.sent_s - reply.due_s for reply in replies if reply.sent_s)
    return Lag(
        samples=len(ordered),
        mean_s=sum(ordered) / len(ordered) if ordered else 0.0,
        p99_s=quantile(ordered, 0.99),
        max_s=ordered[-1] if ordered else 0.0,
        cpu_share=cpu_share,
        dispatch_p99_s=max(quantile(dispatch, 0.99), 0.0),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """With linear interpolation between neighbours; 0 of nothing."""
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def lag_notes(lag: Lag, replies: Iterable[Reply]) -> list[str]:
    """What makes a run client-limited: its figures are the meter's as much as the server's."""
    ttft = sorted(reply.ttft_s for reply in replies if reply.ttft_s is not None)
    median = quantile(ttft, 0.5)
    notes = []
    if ttft and lag.p99_s > MOST_LAG * median:
        notes.append(
            f"client-limited: the meter's loop ran {lag.p99_s * 1e3:.1f} ms late at p99, "
            f"more than {MOST_LAG:.0%} of the median TTFT of {median * 1e3:.1f} ms"
        )
    if lag.cpu_share > MOST_CPU:
        notes.append(f"client-limited: the meter took {lag.cpu_share:.2f} of a core; give it more --workers")
    return notes
