"""One HTTP/1.1 connection: stamps bytes as the loop reads them and leaves their meaning for later."""

import asyncio
from time import monotonic  # the loop's clock, which uvloop rounds to milliseconds
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from twophase.meter.records import Closing, Exchange

STREAM_ENDS = (b"[DONE]\n\n", b"[DONE]\r\n\r\n")  # JSON can't hold them: its line ends are escaped
PATIENCE_S = 1.0  # for the end of a response whose stream has said that it is over
LONGEST_HEAD = 1 << 20
LONGEST = 8 << 20  # of a response to which nobody asked for tokens
BYTES_A_TOKEN = 4 << 10  # at most; a chunk has a few hundred, with log probabilities ten times as many
READ_COST = 128  # what keeping a read takes beside its bytes


class Connection(asyncio.Protocol):
    """Carries one exchange at a time. `ended` is set when the response, or the connection, is over."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.exchange: Exchange | None = None
        self.ended: asyncio.Future[None] | None = None
        self.reusable = False
        self.closed = False
        self.paused = False
        self.silence: asyncio.TimerHandle | None = None

    # of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=0)  # resume_writing then tells of the last byte

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self.exchange is not None:
            self.exchange.sent_s = monotonic()

    def data_received(self, data: bytes) -> None:
        self.now = monotonic()
        exchange = self.exchange
        if exchange is None:  # bytes that nobody asked for
            self.abort()
            return
        try:
            self.parser.feed_data(data)
        except HttpParserError as error:
            self.end("malformed", f"this is no HTTP response: {error}")
            return
        except HttpParserUpgrade:
            self.end("malformed", "the server changes to another protocol")
            return
        if self.exchange is not exchange:
            return
        self.taken += len(data)
        if self.taken > (LONGEST_HEAD if exchange.head_s is None else self.longest):
            self.too_long(exchange)
        elif exchange.reads and exchange.reads[-1][1].endswith(STREAM_ENDS):
            self.await_end()

    def too_long(self, exchange: Exchange) -> None:
        """A server that never ends: what it sends would fill the memory before the timeout."""
        if exchange.head_s is None:
            self.end("malformed", f"the response's head is longer than {LONGEST_HEAD >> 20} MiB")
        else:
            self.end("malformed", f"cut off: the response is longer than {self.longest >> 20} MiB")
        self.abort()

    def eof_received(self) -> None:
        self.closed = True
        self.now = monotonic()
        self.lost("eof", "the server closed the connection")

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self.now = monotonic()
        if error is None:
            self.lost("eof", "the server closed the connection")
        else:
            self.lost("reset", f"the connection was lost: {error}")

    # of httptools, while data_received hands it bytes

    def on_message_begin(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        exchange = self.exchange
        if exchange is None or status < 200:  # 100 Continue, 103 Early Hints: the response follows
            return
        exchange.head_s = self.now
        exchange.status = status
        exchange.headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in self.headers
        )
        for name, text in exchange.headers:
            if name == "content-type":
                exchange.content_type = text
            elif name == "retry-after":
                exchange.retry_after = text
            elif name == "content-length" or (name == "transfer-encoding" and "chunked" in text.lower()):
                self.framed = True

    def on_body(self, body: bytes) -> None:
        if self.exchange is not None:
            self.exchange.reads.append((self.now, body))
            self.taken += READ_COST

    def on_message_complete(self) -> None:
        if self.parser.get_status_code() >= 200:
            self.reusable = self.parser.should_keep_alive() and not self.paused
            self.end("complete", "")

    # of the exchange

    def begin(self, exchange: Exchange, request: bytes) -> asyncio.Future[None]:
        """Send a request; what is returned is done when the exchange has ended, in whatever way."""
        assert self.transport is not None
        self.exchange = exchange
        self.parser = HttpResponseParser(self)
        self.framed = self.reusable = False
        self.taken = 0
        self.longest = LONGEST + BYTES_A_TOKEN * exchange.call.max_tokens
        self.ended = asyncio.get_running_loop().create_future()
        exchange.sent_s = monotonic()
        self.transport.write(request)
        if not self.paused:
            exchange.sent_s = monotonic()
        return self.ended

    def await_end(self) -> None:
        if self.silence is not None:
            return

        def give_up() -> None:
            self.now = monotonic()
            self.end("complete", f"nothing ended the response for {PATIENCE_S:g} s after [DONE]")
            self.abort()

        self.silence = asyncio.get_running_loop().call_later(PATIENCE_S, give_up)

    def lost(self, closing: Closing, why: str) -> None:
        exchange = self.exchange
        if exchange is not None and exchange.head_s is not None and not self.framed and closing == "eof":
            closing, why = "complete", ""  # the end of the connection is the end of such a body
        self.reusable = False
        self.end(closing, why)

    def end(self, closing: Closing, why: str) -> None:
        exchange, ended = self.exchange, self.ended
        if exchange is None or ended is None:
            return
        self.exchange = self.ended = None
        if self.silence is not None:
            self.silence.cancel()
            self.silence = None
        exchange.closed_s = self.now
        exchange.closing = closing
        exchange.error = why
        if closing != "complete":
            self.reusable = False
        if not ended.done():
            ended.set_result(None)

    def stop(self, closing: Closing, why: str) -> None:
        """End the exchange from this side."""
        self.now = monotonic()
        self.end(closing, why)
        self.abort()

    def abort(self) -> None:
        self.closed = True
        self.reusable = False
        if self.transport is not None:
            self.transport.abort()
