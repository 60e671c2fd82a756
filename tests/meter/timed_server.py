"""A server of known times in a thread: token i goes out at arrival + ttft + i * itl, come what may.

After fakeserver.py of the project's research: absolute deadlines, so nothing drifts, and a log of the truth.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

TEMPLATE_TOKENS = 11
HEAD = "HTTP/1.1 {status} X\r\nServer: {server}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(slots=True)
class Asked:
    """A request as the server saw it."""

    at_s: float
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    live: int  # requests in the server with it
    first_s: float = 0.0
    last_s: float = 0.0
    ended: bool = False

    @property
    def prompt(self) -> str:
        if "prompt" in self.body:
            return str(self.body["prompt"])
        return "\n".join(message["content"] for message in self.body["messages"])


@dataclass(slots=True)
class Timed:
    """What it does, and what it saw."""

    ttft_s: float = 0.02
    itl_s: float = 0.002
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "fake", "max_model_len": 100_000}])
    refuse: Callable[[str, dict[str, Any]], tuple[int, str] | None] = lambda path, body: None
    pages: dict[str, str] = field(default_factory=dict)  # other paths, 200
    server: str = ""
    usage: bool = True
    words_cost: Callable[[int], int] = lambda words: 2 * words  # in tokens
    stop_after: int | None = None  # tokens, then finish_reason stop
    dies_after: int | None = None  # requests, without the probes
    serial: bool = False  # one request after the other
    asked: list[Asked] = field(default_factory=list)
    live: int = 0
    free_s: float = 0.0
    url: str = ""
    stop: Callable[[], None] = lambda: None
    """Close the socket and every connection."""

    @property
    def measured(self) -> list[Asked]:
        """Without the probes."""
        return [each for each in self.asked if each.body.get("max_tokens") != 2]


class Connection(asyncio.Protocol):
    def __init__(self, timed: Timed, open_ones: set["Connection"]) -> None:
        self.timed = timed
        self.open_ones = open_ones
        self.bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.open_ones.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.open_ones.discard(self)

    def data_received(self, data: bytes) -> None:
        self.bytes += data
        head, _, rest = self.bytes.partition(b"\r\n\r\n")
        if not _:
            return
        lines = head.decode().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        self.bytes = rest[length:]
        method, path, _ = lines[0].split(" ")
        self.answer(method, path, json.loads(rest[:length] or b"{}"), headers)

    def answer(self, method: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> None:
        timed = self.timed
        if method == "GET":
            if path == "/v1/models" and timed.models:
                self.whole(200, json.dumps({"object": "list", "data": timed.models}))
            else:
                self.whole(200 if path in timed.pages else 404, timed.pages.get(path, "{}"))
            return
        asked = Asked(monotonic(), path, body, headers, timed.live + 1)
        timed.asked.append(asked)
        if len(timed.measured) == timed.dies_after:
            timed.stop()
        if refused := timed.refuse(path, body):
            self.whole(refused[0], json.dumps({"error": {"message": refused[1]}}))
            return
        timed.live += 1
        asyncio.get_running_loop().create_task(self.stream(asked))

    def whole(self, status: int, text: str, kind: str = "application/json") -> None:
        server = self.timed.server or "test"
        head = HEAD.format(status=status, server=server, kind=kind, length=len(text.encode()))
        self.transport.write(head.encode() + text.encode())

    def chunk(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def stream(self, asked: Asked) -> None:
        timed, body = self.timed, asked.body
        tokens = body.get("max_tokens") or body["max_completion_tokens"]
        tokens = min(tokens, timed.stop_after or tokens)
        base = max(asked.at_s, timed.free_s) if timed.serial else asked.at_s
        timed.free_s = base + timed.ttft_s
        chat = "chat" in asked.path
        self.transport.write(STREAM)
        for at in range(tokens):
            await asyncio.sleep(max(base + timed.ttft_s + at * timed.itl_s - monotonic(), 0))
            if self.transport.is_closing():
                break
            piece = {"delta": {"content": " so"}} if chat else {"text": " so"}
            asked.last_s = monotonic()
            asked.first_s = asked.first_s or asked.last_s
            self.chunk(event({"choices": [{"index": 0, "finish_reason": None, **piece}]}))
        else:
            piece = {"delta": {}} if chat else {"text": ""}
            why = "stop" if timed.stop_after else "length"
            self.chunk(event({"choices": [{"index": 0, "finish_reason": why, **piece}]}))
            if timed.usage and body.get("stream_options"):
                prompt = TEMPLATE_TOKENS + timed.words_cost(len(asked.prompt.split()))
                usage = {"prompt_tokens": prompt, "completion_tokens": tokens}
                self.chunk(event({"choices": [], "usage": usage}))
            self.chunk(b"data: [DONE]\n\n")
            self.transport.write(b"0\r\n\r\n")
            asked.ended = True
        timed.live -= 1


def event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@contextmanager
def timed_server(**what: Any) -> Iterator[Timed]:
    """Its prompts cost 2 tokens a word and 11 for the template."""
    timed = Timed(**what)
    open_ones: set[Connection] = set()
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        loop.create_server(lambda: Connection(timed, open_ones), "127.0.0.1", 0, backlog=1024)
    )
    timed.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def go() -> None:
        server.close()
        for each in tuple(open_ones):
            each.transport.abort()

    timed.stop = lambda: loop.call_soon_threadsafe(go)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield timed
    finally:
        timed.stop()
        loop.call_soon_threadsafe(loop.call_later, 0.05, loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
