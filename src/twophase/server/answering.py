"""One request's way: asked, waited for, written. Whoever hangs up is cancelled before the next pass."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from twophase.server.errors import ApiError
from twophase.server.events import Delta, Event, EventQueue, Failed
from twophase.server.protocol import StreamOptions
from twophase.server.service import RefusedError, Service
from twophase.server.writing import Writer

GONE = 499  # nobody is there to read it
DONE = b"data: [DONE]\n\n"


class Reading:
    """A request that the service has taken, until its answer is complete or its client hangs up."""

    def __init__(self, service: Service, writer: Writer, receive: Receive) -> None:
        self.writer = writer
        self._service, self._receive = service, receive
        self._outlet, self._cancelled = EventQueue(), False
        try:
            self._numbers = service.submit(writer.asked.asks, self._outlet)
        except RefusedError as refused:
            retry = {} if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
            raise _api_error(refused.failed, retry) from None
        self._watcher = asyncio.create_task(self._watch())

    async def take(self) -> list[Event]:
        """What came since; nothing where the client has gone."""
        return await self._outlet.take()

    def close(self) -> None:
        """Nobody reads any further."""
        self._watcher.cancel()
        self._cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._cancel()
        self._outlet.close()

    def _cancel(self) -> None:
        if not (self.writer.done or self._cancelled):
            self._cancelled = True
            self._service.cancel(self._numbers)

    def __enter__(self) -> "Reading":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def whole_answer(service: Service, writer: Writer, receive: Receive) -> Response:
    said: list[list[Delta]] = [[] for _ in writer.asked.asks]
    with Reading(service, writer, receive) as reading:
        while not all(each and each[-1].finish for each in said):
            events = await reading.take()
            if not events:
                return Response(status_code=GONE)
            for event in events:
                if isinstance(event, Failed):
                    raise _api_error(event)
                said[event.choice].append(event)
        return JSONResponse(writer.answer(said))


async def streamed_answer(
    service: Service, writer: Writer, receive: Receive, options: StreamOptions
) -> Response:
    """The status is told with the first token, so that what fails before it has its own."""
    reading = Reading(service, writer, receive)
    try:
        first = await reading.take()
        if not first:
            reading.close()
            return Response(status_code=GONE)
        for event in first:
            if isinstance(event, Failed):
                raise _api_error(event)
    except BaseException:
        reading.close()
        raise
    return EventStream(reading, _chunks(reading, first, options))


class EventStream(Response):
    """Server-sent events, as they come."""

    media_type = "text/event-stream"

    def __init__(self, reading: Reading, chunks: AsyncIterator[bytes]) -> None:
        self._reading, self._chunks = reading, chunks
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._reading:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _chunks(reading: Reading, events: Sequence[Event], options: StreamOptions) -> AsyncIterator[bytes]:
    """All that is there at once is written at once: what a slow client missed does not pile up in packets."""
    writer = reading.writer
    usage = bool(options.include_usage)
    each_usage = usage and bool(options.continuous_usage_stats)
    while events:
        lines: list[bytes] = []
        for event in events:
            if isinstance(event, Failed):
                yield b"".join([*lines, _line(_api_error(event).body)])
                return
            document = writer.document([writer.choice(event, False)], False)
            if usage:
                document["usage"] = writer.usage() if each_usage else None
            lines.append(_line(document))
        if writer.done:
            if usage:
                lines.append(_line({**writer.document([], False), "usage": writer.usage()}))
            yield b"".join([*lines, DONE])
            return
        yield b"".join(lines)
        events = await reading.take()


def _line(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def _api_error(failed: Failed, headers: dict[str, str] | None = None) -> ApiError:
    return ApiError(failed.status, failed.message, code=failed.code, headers=headers)
