"""Plays a scenario to whoever asks: POST /S/<scenario>/v1/chat/completions, or /v1/completions."""

import asyncio
import socket
import struct
from collections.abc import Iterable
from time import monotonic
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from twophase.meter.conformance.scenario import JSON, Scenario
from twophase.meter.conformance.wording import Wording, encode
from twophase.meter.records import Endpoint

MODELS = {
    "object": "list",
    "data": [{"id": "known", "object": "model", "created": 1, "owned_by": "twophase"}],
}
PHRASES = {200: "OK", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}


class Player:
    """The scenarios by name, and how late the machine was in playing each: no meter is to blame for that."""

    def __init__(self, scenarios: Iterable[Scenario]) -> None:
        self.scenarios = {each.name: each for each in scenarios}
        self.late_s = dict.fromkeys(self.scenarios, 0.0)
        self.server: asyncio.Server | None = None

    async def listen(self, port: int = 0) -> int:
        """Start on this machine alone; the port that it is."""
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Conversation(self), "127.0.0.1", port)
        return int(self.server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self.server is not None:
            self.server.close()


class Conversation(asyncio.Protocol):
    """One connection: a request, its reply, and so on."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.parser = HttpRequestParser(self)
        self.url = b""
        self.playing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self.playing is not None:
            self.playing.cancel()

    def data_received(self, data: bytes) -> None:
        self.now = monotonic()
        try:
            self.parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.transport.abort()

    def on_message_begin(self) -> None:
        self.url = b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_message_complete(self) -> None:
        path = self.url.decode("latin-1").partition("?")[0]
        asks = self.parser.get_method() == b"POST"
        _, _, where = path.partition("/S/")
        scenario = self.player.scenarios.get(where.partition("/")[0])
        if asks and scenario is not None:
            endpoint: Endpoint = "chat" if "/chat/" in where else "completions"
            play = self.play(scenario, Wording(endpoint), self.now)
            self.playing = asyncio.get_running_loop().create_task(play)
        elif path.endswith("/models"):
            self.answer(200, encode(MODELS))
        elif path.endswith("/health"):
            self.answer(200, b"{}")
        else:
            self.answer(404, encode({"error": {"message": f"nothing is at {path}", "code": 404}}))

    def answer(self, status: int, body: bytes, headers: tuple[str, ...] = ()) -> None:
        lines = (*headers, f"Content-Type: {JSON}", f"Content-Length: {len(body)}")
        self.transport.write(head(status, lines) + body)

    async def play(self, scenario: Scenario, wording: Wording, began_s: float) -> None:
        steps = scenario.steps(wording)
        if scenario.content_type == JSON:
            [(at_s, body)] = steps
            await self.wait(scenario, began_s + at_s)
            self.answer(scenario.status, body, scenario.headers)
            return
        lines = (
            f"Content-Type: {scenario.content_type}",
            "Cache-Control: no-cache",
            "Transfer-Encoding: chunked",
        )
        self.transport.write(head(scenario.status, lines))
        for at_s, piece in steps:
            await self.wait(scenario, began_s + at_s)
            if piece:
                self.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if scenario.ending == "reset":
            reset(self.transport)
        else:
            self.transport.write(b"0\r\n\r\n")

    async def wait(self, scenario: Scenario, until_s: float) -> None:
        while (left_s := until_s - monotonic()) > 0:  # a loop's clock may wake it early, by its resolution
            await asyncio.sleep(left_s)
        late = self.player.late_s
        late[scenario.name] = max(late[scenario.name], -left_s)


def head(status: int, lines: Iterable[str]) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} {PHRASES[status]}", *lines, "", ""]).encode("latin-1")


def reset(transport: asyncio.Transport) -> None:
    """Close with RST and not with FIN, as a process that dies does."""
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()
