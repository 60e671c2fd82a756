"""The event-stream format of the WHATWG, read from bytes: https://html.spec.whatwg.org/#parsing-an-event-stream.

Lines end in LF, CR or CRLF and nothing else, so U+2028 and U+0085 inside a text stay where they are.
Every event carries the time of the read that completed it, whichever way its bytes were cut.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

BOM = b"\xef\xbb\xbf"
LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(slots=True)  # and not frozen: that takes twice as long to make, and there are thousands a second
class ServerEvent:
    """One event as the server sent it; `data` in UTF-8, its lines joined by LF."""

    at_s: float
    data: bytes
    event: bytes = b"message"
    id: bytes = b""


@dataclass(slots=True)
class EventStream:
    """A stream read so far; `feed` takes its bytes in any pieces and returns the events they completed."""

    head: bytes | None = b""  # the first bytes, while they may yet be a byte-order mark
    line: bytearray = field(default_factory=bytearray)  # unfinished
    after_cr: bool = False  # an LF that comes next belongs to the line end before it
    data: list[bytes] = field(default_factory=list)
    event: bytes = b""
    id: bytes = b""
    at_rest: bool = False  # nothing is unfinished

    def feed(self, at_s: float, piece: bytes) -> list[ServerEvent]:
        if self.at_rest and piece.find(b"\n") == len(piece) - 2 and is_plain(piece):
            return [ServerEvent(at_s, piece[6:-2], b"message", self.id)]
        if self.head is not None:
            piece = self.head + piece
            if len(piece) < len(BOM) and BOM.startswith(piece):
                self.head = piece
                return []
            self.head = None
            piece = piece.removeprefix(BOM)
        if not piece:
            return []
        if self.after_cr and piece[:1] == b"\n":
            piece = piece[1:]
            self.after_cr = False
            if not piece:
                return []
        self.after_cr = piece[-1:] == b"\r"
        lines = piece.split(b"\n") if b"\r" not in piece else LINE_END.split(piece)
        self.line += lines[0]  # in place: a line may come in a million pieces
        found: list[ServerEvent] = []
        if lines[1:]:
            lines[0] = bytes(self.line)
            self.line = bytearray(lines.pop())
        else:
            lines = []
        for line in lines:
            if line:
                self.take(line)
            elif (done := self.dispatch(at_s)) is not None:
                found.append(done)
        self.at_rest = not (self.line or self.after_cr or self.data or self.event)
        return found

    def take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self.data.append(value)
        elif name == b"event":
            self.event = value
        elif name == b"id" and b"\0" not in value:
            self.id = value

    def dispatch(self, at_s: float) -> ServerEvent | None:
        event, data = self.event, self.data
        self.event, self.data = b"", []
        if not data:
            return None
        return ServerEvent(at_s, b"\n".join(data), event or b"message", self.id)

    def rest(self, at_s: float) -> ServerEvent | None:
        """What the stream's end left without its blank line: the format drops it, servers mean it."""
        if self.line:
            self.take(bytes(self.line))
            self.line.clear()
        return self.dispatch(at_s)


def is_plain(piece: bytes) -> bool:
    """One event in one piece, as nearly all of them come."""
    return piece[:6] == b"data: " and piece[-2:] == b"\n\n" and b"\r" not in piece


def read_events(reads: Iterable[tuple[float, bytes]]) -> tuple[list[ServerEvent], ServerEvent | None]:
    """All events of a stream, and what its end left unfinished."""
    stream = EventStream()
    events: list[ServerEvent] = []
    at_s = 0.0
    for at_s, piece in reads:
        events += stream.feed(at_s, piece)
    if stream.head:
        stream.line, stream.head = bytearray(stream.head), None
    return events, stream.rest(at_s)
