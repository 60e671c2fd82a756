"""Parquet written by the standard library alone: flat tables of numbers and texts, one row group at a time.

Polars, which reads them, would add as much memory to a run's end as the run itself takes. Pages are plain
values behind their definition levels, packed by gzip; the footer is Thrift's compact protocol. The format:
https://parquet.apache.org/docs/file-format
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import pack
from typing import Any, Literal

Kind = Literal["integer", "number", "text"]  # 64 bits, 64 bits, UTF-8; any of them may be None

MAGIC = b"PAR1"
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12  # Thrift's types
PLAIN, RLE = 0, 3  # Parquet's encodings
OPTIONAL, UTF8, GZIP, DATA_PAGE = 1, 0, 2, 0
PHYSICAL: dict[Kind, int] = {"integer": 2, "number": 5, "text": 6}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column's values of a row group, as they stand in the file."""

    name: str
    kind: Kind
    rows: int
    offset: int
    whole_bytes: int  # with its page's header, were it not packed
    packed_bytes: int


def write_parquet(path: Path, columns: Mapping[str, Kind], groups: Iterable[Sequence[Sequence[Any]]]) -> None:
    """Each group has the columns in their order, all of the same length."""
    written: list[list[Chunk]] = []
    with path.open("wb") as file:
        file.write(MAGIC)
        for group in groups:
            chunks = []
            for (name, kind), values in zip(columns.items(), group, strict=True):
                header, body, whole_bytes = page(kind, values)
                size = len(header) + len(body)
                chunks.append(Chunk(name, kind, len(values), file.tell(), len(header) + whole_bytes, size))
                file.write(header + body)
            written.append(chunks)
        footer = described(columns, written)
        file.write(footer + pack("<I", len(footer)) + MAGIC)


def page(kind: Kind, values: Sequence[Any]) -> tuple[bytes, bytes, int]:
    """Its header, its packed body, and how long the body was."""
    there = [each for each in values if each is not None]
    levels = all_there(len(values)) if len(there) == len(values) else levels_of(values)
    whole = pack("<I", len(levels)) + levels + ENCODED[kind](there)
    pressed = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)  # gzip's frame
    body = pressed.compress(whole) + pressed.flush()
    counts = struct((1, I32, len(values)), (2, I32, PLAIN), (3, I32, RLE), (4, I32, RLE))
    header = struct((1, I32, DATA_PAGE), (2, I32, len(whole)), (3, I32, len(body)), (5, STRUCT, counts))
    return header, body, len(whole)


def all_there(rows: int) -> bytes:
    """Definition levels of a column without gaps: one run of ones."""
    return varint(rows << 1) + b"\x01"


def levels_of(values: Sequence[Any]) -> bytes:
    """A bit for each row, the first one lowest: whether it has a value."""
    bits = int("".join("0" if each is None else "1" for each in reversed(values)), 2)
    eights = -(-len(values) // 8)
    return varint(eights << 1 | 1) + bits.to_bytes(eights, "little")


def texts(values: Sequence[str]) -> bytes:
    @cache
    def sized(value: str) -> bytes:
        data = value.encode(errors="replace")
        return pack("<I", len(data)) + data

    return b"".join(map(sized, values))


ENCODED: dict[Kind, Callable[[Sequence[Any]], bytes]] = {
    "integer": lambda values: pack(f"<{len(values)}q", *values),
    "number": lambda values: pack(f"<{len(values)}d", *values),
    "text": texts,
}


def described(columns: Mapping[str, Kind], groups: Sequence[Sequence[Chunk]]) -> bytes:
    """The footer: FileMetaData."""
    schema = [struct((4, BINARY, "schema"), (5, I32, len(columns)))]
    for name, kind in columns.items():
        text = [(6, I32, UTF8)] if kind == "text" else []
        schema.append(struct((1, I32, PHYSICAL[kind]), (3, I32, OPTIONAL), (4, BINARY, name), *text))
    rows = [chunks[0].rows for chunks in groups]
    row_groups = [
        struct(
            (1, LIST, listing(STRUCT, map(column_chunk, chunks))),
            (2, I64, sum(each.whole_bytes for each in chunks)),
            (3, I64, chunks[0].rows),
        )
        for chunks in groups
    ]
    return struct(
        (1, I32, 1),
        (2, LIST, listing(STRUCT, schema)),
        (3, I64, sum(rows)),
        (4, LIST, listing(STRUCT, row_groups)),
        (6, BINARY, "twophase"),
    )


def column_chunk(own: Chunk) -> bytes:
    about = struct(
        (1, I32, PHYSICAL[own.kind]),
        (2, LIST, listing(I32, (zigzag(PLAIN), zigzag(RLE)))),
        (3, LIST, listing(BINARY, [binary(own.name)])),
        (4, I32, GZIP),
        (5, I64, own.rows),
        (6, I64, own.whole_bytes),
        (7, I64, own.packed_bytes),
        (9, I64, own.offset),
    )
    return struct((2, I64, own.offset), (3, STRUCT, about))


# Thrift's compact protocol


def struct(*fields: tuple[int, int, int | str | bytes]) -> bytes:
    """(number, type, value) in the order of their numbers; lists and structs come encoded."""
    made, before = b"", 0
    for number, kind, value in fields:
        made += bytes([(number - before) << 4 | kind])
        if isinstance(value, int):
            made += zigzag(value)
        else:
            made += binary(value) if isinstance(value, str) else value
        before = number
    return made + b"\x00"


def listing(kind: int, items: Iterable[bytes]) -> bytes:
    own = list(items)
    head = bytes([len(own) << 4 | kind]) if len(own) < 15 else bytes([0xF0 | kind]) + varint(len(own))
    return head + b"".join(own)


def binary(text: str) -> bytes:
    data = text.encode()
    return varint(len(data)) + data


def zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
