"""A streaming server in a thread, whose laws of TTFT and ITL are known: it never answers early."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

WINDOW = 4096
TEMPLATE = 11  # tokens that a chat template adds


@dataclass
class LawServer:
    """Seconds: ttft[0] + ttft[1] · n until the first token, then one each itl."""

    ttft: tuple[float, float] = (3e-3, 2e-6)
    itl: float = 1e-3
    port: int = 0
    prompts: list[str] = field(default_factory=list)

    def ttft_s(self, tokens: int) -> float:
        return self.ttft[0] + self.ttft[1] * tokens

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                if head.startswith("GET /v1/models"):
                    model = {"id": "llama-3-8b", "object": "model", "max_model_len": WINDOW}
                    answer(writer, {"object": "list", "data": [model]})
                elif head.startswith("POST /v1/chat/completions"):
                    await self.stream(writer, json.loads(body))
                else:
                    answer(writer, {"error": "not here"}, "404 Not Found")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went, or the test is over
        finally:
            writer.close()

    async def stream(self, writer: asyncio.StreamWriter, asked: dict[str, object]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        messages = asked["messages"]
        assert isinstance(messages, list)
        text = " ".join(each["content"] for each in messages)
        self.prompts.append(text)
        tokens, output = len(text.split()) + TEMPLATE, int(str(asked.get("max_tokens", 16)))
        if tokens + output > WINDOW:
            answer(writer, {"error": {"message": "context length exceeded"}}, "400 Bad Request")
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for step in range(output):
            due = began + self.ttft_s(tokens) + self.itl * step
            await asyncio.sleep(max(0.0, due - loop.time()) + 1e-4)
            event(writer, {"choices": [{"index": 0, "delta": {"content": " a"}, "finish_reason": None}]})
        event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        details = {"prompt_tokens_details": {"cached_tokens": 0}}
        usage = {"prompt_tokens": tokens, "completion_tokens": output, **details}
        event(writer, {"choices": [], "usage": usage})
        chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")


def answer(writer: asyncio.StreamWriter, body: object, status: str = "200 OK") -> None:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)


def event(writer: asyncio.StreamWriter, body: object) -> None:
    chunk(writer, b"data: " + json.dumps(body).encode() + b"\n\n")


def chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


@contextmanager
def running(server: LawServer) -> Iterator[LawServer]:
    """Serves in a thread of its own until the end of the block."""
    started = threading.Event()
    ended: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        server.port = listening.sockets[0].getsockname()[1]
        over = asyncio.Event()
        ended.append((asyncio.get_running_loop(), over))
        started.set()
        async with listening:
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield server
    finally:
        loop, over = ended[0]
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
