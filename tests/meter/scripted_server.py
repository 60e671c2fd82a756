"""A server that does what its script says, whatever is asked: for the wire's tests."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from twophase.meter.records import Call, Target

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

Script = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
PATH = "/v1/chat/completions"


def call(body: bytes = b"{}") -> Call:
    return Call(0, body, max_tokens=16, prompt_tokens=7)


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


class Seen:
    """What reached the server."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[bytes] = []


@asynccontextmanager
async def serving(script: Script, **how: Any) -> Any:
    """Yields (port, what was seen). The script returns whether the connection stays open."""
    seen = Seen()
    writers = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line[15:])
                        for line in head.lower().split(b"\r\n")
                        if line[:15] == b"content-length:"
                    ),
                    0,
                )
                request = head + await reader.readexactly(length)
                seen.requests.append(request)
                if not await script(request, reader, writer):
                    break
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=1 << 20, **how)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


def saying(answer: bytes, stay: bool = True) -> Script:
    async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer)
        await writer.drain()
        return stay

    return script


def target(port: int, **more: Any) -> Target:
    return Target(f"http://127.0.0.1:{port}", "m", "chat", **more)
