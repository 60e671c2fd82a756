"""Replies read while the load runs, as far as that takes little of the loop; the rest when it is over."""

import asyncio
import zlib
from array import array
from collections import deque
from dataclasses import dataclass
from itertools import accumulate, pairwise
from time import perf_counter

from twophase.meter.level import Progress
from twophase.meter.reading import read_reply
from twophase.meter.records import Endpoint, Exchange, Reply

SHARE = 0.03  # of the loop's time for reading: bytes that come meanwhile wait for a millisecond
MOST_BYTES = 64 << 20  # packed and unread; beyond them reading can't wait
WINDOW_BITS, MEMORY = 13, 5  # of zlib: with its usual 256 KiB, getting them takes longer than packing
LONG = 256  # reads: such a reply takes several milliseconds to read, and waits for the load's end


@dataclass(slots=True)
class Packed:
    """An exchange with its bytes compressed: a tenth of the size, for a tenth of the time to read it."""

    exchange: Exchange  # without its reads
    data: bytes
    at_s: "array[float]"
    ends: "array[int]"  # of each read in the data


def packed(done: Exchange) -> Packed:
    times, pieces = zip(*done.reads, strict=True) if done.reads else ((), ())
    done.reads = []
    ends = array("Q", accumulate(map(len, pieces)))
    pressed = zlib.compressobj(1, zlib.DEFLATED, WINDOW_BITS, MEMORY)
    data = pressed.compress(b"".join(pieces)) + pressed.flush()
    return Packed(done, data, array("d", times), ends)


def unpacked(pack: Packed) -> Exchange:
    whole = zlib.decompress(pack.data)
    pieces = [whole[begin:end] for begin, end in pairwise([0, *pack.ends])]
    pack.exchange.reads = list(zip(pack.at_s, pieces, strict=True))
    return pack.exchange


class Digest:
    """Takes exchanges as they end, and keeps what they mean."""

    def __init__(self, endpoint: Endpoint, progress: Progress) -> None:
        self.endpoint = endpoint
        self.progress = progress
        self.unread: deque[Packed] = deque()
        self.long: list[Packed] = []
        self.bytes = 0
        self.replies: list[Reply] = []
        self.first_tokens = 0
        self.later_tokens = 0
        self.come = asyncio.Event()
        self.reader = asyncio.get_running_loop().create_task(self.read_some())

    def take(self, done: Exchange) -> None:
        reads = len(done.reads)
        pack = packed(done)
        self.bytes += len(pack.data) + 16 * reads
        (self.unread if reads <= LONG else self.long).append(pack)
        self.come.set()

    async def read_some(self) -> None:
        while True:
            await self.come.wait()
            self.come.clear()
            while self.unread or (self.long and self.bytes > MOST_BYTES):
                began = perf_counter()
                self.read(self.unread.popleft() if self.unread else self.long.pop())
                took = perf_counter() - began
                await asyncio.sleep(took / SHARE if self.bytes < MOST_BYTES else 0)

    def read(self, pack: Packed) -> None:
        self.bytes -= len(pack.data) + 16 * len(pack.at_s)
        done = unpacked(pack)
        self.keep(read_reply(done, self.endpoint))
        done.reads = []

    def keep(self, reply: Reply) -> None:
        self.replies.append(reply)
        progress = self.progress
        if reply.outcome != "finished":
            progress.failed += 1
        if reply.ttft_s is not None:
            self.first_tokens += 1
            so_far = progress.ttft_s or 0.0
            progress.ttft_s = so_far + (reply.ttft_s - so_far) / self.first_tokens
        if reply.tpot_s is not None:
            self.later_tokens += 1
            so_far = progress.tpot_s or 0.0
            progress.tpot_s = so_far + (reply.tpot_s - so_far) / self.later_tokens

    def all_read(self) -> list[Reply]:
        """Every reply, once nothing more comes."""
        self.reader.cancel()
        for pack in (*self.unread, *self.long):
            self.read(pack)
        self.unread.clear()
        self.long.clear()
        return self.replies
