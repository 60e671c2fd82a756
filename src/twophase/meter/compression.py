"""A body without the compression that its server was asked not to use: some gateways use it all the same."""

import zlib

from twophase.meter.chunks import shorten
from twophase.meter.records import Exchange

Reads = list[tuple[float, bytes]]

KNOWN = ("gzip", "x-gzip", "deflate")
MOST_INFLATED = 64 << 20  # bytes: a body of a megabyte may hold a gigabyte


def decoded(exchange: Exchange) -> tuple[Reads, str]:
    """The body's reads as they were before compression; and what is in the way, where they can't be had."""
    coding = dict(exchange.headers).get("content-encoding", "").strip().lower()
    if coding in ("", "identity"):
        return exchange.reads, ""
    if coding not in KNOWN:
        return [], f"the reply came compressed as {shorten(coding)}, though identity was asked for"
    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
    found: Reads = []
    room = MOST_INFLATED
    try:
        for at_s, piece in exchange.reads:
            found.append((at_s, stream.decompress(piece, room + 1)))
            room -= len(found[-1][1])
            if room < 0 or stream.unconsumed_tail:
                return [], f"the reply inflates to more than {MOST_INFLATED >> 20} MiB"
    except zlib.error as error:
        return [], f"the reply's compression is damaged: {error}"
    return found, ""


def body_of(done: Exchange) -> bytes:
    return b"".join(piece for _, piece in decoded(done)[0])
