"""A streaming server whose times are known: a first token after 100 ms, then one every 20 ms.

    python bench/known_server.py PORT

Deadlines are absolute, so a late one delays no other. GET /truth gives what it did to each request since it
was last asked: [when its bytes were read, first token written, last token written], in seconds of
CLOCK_MONOTONIC.
"""

import asyncio
import json
import sys
from time import monotonic
from typing import cast

from httptools import HttpRequestParser

from twophase.meter.exchange import run

TTFT_S = 0.1
ITL_S = 0.02
WORDS = (" the", " of", " and", " to", " in", " that", " was", " his")
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)
MODELS = {
    "object": "list",
    "data": [{"id": "known", "object": "model", "created": 1, "owned_by": "twophase"}],
}

truth: list[tuple[float, float, float]] = []


def chunk(choices: list[object], **more: object) -> bytes:
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "known", "choices": choices}
    event = b"data: %b\n\n" % json.dumps(body | more, separators=(",", ":")).encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


TOKENS = [chunk([{"index": 0, "delta": {"content": word}, "finish_reason": None}]) for word in WORDS]
FINISH = chunk([{"index": 0, "delta": {}, "finish_reason": "length"}])
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Conversation(asyncio.Protocol):
    """One connection, one request after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.parser = HttpRequestParser(self)
        self.loop = asyncio.get_running_loop()
        self.url = self.body = b""

    def data_received(self, data: bytes) -> None:
        self.now = monotonic()
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.url = self.body = b""
        self.began_s = self.now

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.parser.get_method() == b"POST":
            self.begin(json.loads(self.body))
        elif self.url == b"/truth":
            self.answer(truth)
            truth.clear()
        else:
            self.answer(MODELS)

    def answer(self, body: object) -> None:
        encoded = json.dumps(body).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
            encoded
        )
        self.transport.write(head + encoded)

    def begin(self, asked: dict[str, object]) -> None:
        self.tokens = int(cast(int, asked.get("max_completion_tokens") or asked.get("max_tokens") or 64))
        self.prompt_tokens = len(json.dumps(asked.get("messages", ""))) // 4
        self.made = 0
        self.transport.write(HEAD)
        self.read_s = self.now
        self.base_s = self.loop.time() - (monotonic() - self.now)  # uvloop's clock has only milliseconds
        self.loop.call_at(self.base_s + TTFT_S, self.tell)

    def tell(self) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(TOKENS[self.made % len(TOKENS)])
        at_s = monotonic()
        if self.made == 0:
            self.first_s = at_s
        self.made += 1
        if self.made < self.tokens:
            self.loop.call_at(self.base_s + TTFT_S + ITL_S * self.made, self.tell)
            return
        total = self.prompt_tokens + self.tokens
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.tokens, "total_tokens": total}
        self.transport.write(FINISH + chunk([], usage=usage) + END)
        truth.append((self.read_s, self.first_s, at_s))


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(
        Conversation, "127.0.0.1", int(sys.argv[1]), backlog=4096
    )
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run(main)
