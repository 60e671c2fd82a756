"""Replies read while the load runs: one at a time, the loop's own work between any two."""

import asyncio

from twophase.meter.level import Progress
from twophase.meter.reading import read_reply
from twophase.meter.records import Endpoint, Exchange, Reply

LONG = 256  # reads: replies with more wait for the load's end, for reading one takes milliseconds
LONG_BYTES = 32 << 20  # of those that wait, at most


class Digest:
    """Takes exchanges as they end, and keeps what they mean."""

    def __init__(self, endpoint: Endpoint, progress: Progress) -> None:
        self.endpoint = endpoint
        self.progress = progress
        self.unread: asyncio.Queue[Exchange] = asyncio.Queue()
        self.long: list[Exchange] = []
        self.long_bytes = 0
        self.replies: list[Reply] = []
        self.first_tokens = 0
        self.later_tokens = 0
        self.reader = asyncio.get_running_loop().create_task(self.read_all())

    def take(self, done: Exchange) -> None:
        self.unread.put_nowait(done)

    async def read_all(self) -> None:
        while True:
            done = await self.unread.get()
            size = sum(len(data) for _, data in done.reads)
            if len(done.reads) > LONG and self.long_bytes + size < LONG_BYTES:
                self.long.append(done)
                self.long_bytes += size
            else:
                self.keep(read_reply(done, self.endpoint))
            self.unread.task_done()
            await asyncio.sleep(0)

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

    async def all_read(self) -> list[Reply]:
        """Every reply, once nothing more comes."""
        await self.unread.join()
        self.reader.cancel()
        for done in self.long:
            self.keep(read_reply(done, self.endpoint))
        self.long.clear()
        return self.replies
