"""The event-stream parser against the specification's own examples, any cut, and noise."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.meter.event_stream import EventStream, ServerEvent, read_events

Told = tuple[bytes, bytes, bytes]


def told(stream: bytes) -> list[Told]:
    events, _ = read_events([(0.0, stream)])
    return [(event.event, event.data, event.id) for event in events]


def by_the_specification(stream: bytes) -> list[Told]:
    """The algorithm of the specification's section "Interpreting an event stream", on the whole of it."""
    lines = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))
    found, data, event, last = [], b"", b"", b""
    for line in lines[:-1]:  # what has no end is no line yet
        if line == b"":
            if data != b"":
                found.append((event or b"message", data[:-1], last))
            data = event = b""
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if name == b"data":
                data += value + b"\n"
            elif name == b"event":
                event = value
            elif name == b"id" and b"\0" not in value:
                last = value
    return found


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [(b"message", b"YHOO\n+2\n10", b"")]),
        (
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            [
                (b"message", b"first event", b"1"),
                (b"message", b"second event", b""),
                (b"message", b" third event", b""),
            ],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [(b"message", b"", b""), (b"message", b"\n", b"")]),
        (b"data:test\n\ndata: test\n\n", [(b"message", b"test", b"")] * 2),
        (b"event: add\ndata: 73857293\n\n", [(b"add", b"73857293", b"")]),
        (b"event: add\n\ndata: x\n\n", [(b"message", b"x", b"")]),  # an event without data leaves no name
    ],
)
def test_examples_of_the_specification(stream: bytes, events: list[Told]) -> None:
    assert told(stream) == events


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end(end: bytes) -> None:
    stream = b"data: a\ndata: b\n\ndata: c\n\n".replace(b"\n", end)
    assert [data for _, data, _ in told(stream)] == [b"a\nb", b"c"]


def test_no_other_letter_ends_a_line() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg".encode()
    assert [data for _, data, _ in told(b"data: " + text + b"\n\n")] == [text]


def test_one_byte_order_mark_is_dropped() -> None:
    assert told(b"\xef\xbb\xbfdata: x\n\n") == [(b"message", b"x", b"")]
    assert told(b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n") == []  # the second is a field's name


def test_an_event_has_the_time_of_the_read_that_completed_it() -> None:
    reads = [(1.0, b"data: a"), (2.0, b"\n"), (3.0, b"\ndata: b\r"), (4.0, b"\r"), (5.0, b"\n")]
    events, rest = read_events(reads)
    assert [(event.at_s, event.data) for event in events] == [(3.0, b"a"), (4.0, b"b")]
    assert rest is None


def test_what_the_end_cut_off_is_kept_apart() -> None:
    events, rest = read_events([(1.0, b"data: a\n\nda"), (2.0, b"ta: [DONE]")])
    assert [event.data for event in events] == [b"a"]
    assert rest == ServerEvent(2.0, b"[DONE]")


STREAMS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"data: ",
                b"data:",
                b"data",
                b"event: error",
                b"id: 7",
                b":",
                b" ",
                b"{}",
                b"\n",
                b"\r",
                b"\r\n",
            ]
        ),
        st.sampled_from(
            [b"\n\n", b"\xef\xbb\xbf", b"\xef\xbb", b"id: \0", "é😀\u2028".encode(), b"retry: 5"]
        ),
        st.binary(max_size=6),
    ),
    max_size=30,
).map(b"".join)


@given(STREAMS)
def test_the_same_events_as_the_specification_finds(stream: bytes) -> None:
    assert told(stream) == by_the_specification(stream)


@given(STREAMS, st.data())
def test_any_cut_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    state = EventStream()
    found = [event for piece in pieces for event in state.feed(0.0, piece)]
    assert [(event.event, event.data, event.id) for event in found] == told(stream)
    events, rest = read_events([(0.0, piece) for piece in pieces])
    assert (events, rest) == read_events([(0.0, stream)])


@given(st.binary(max_size=400))
def test_noise_does_no_harm(stream: bytes) -> None:
    one_by_one = [(0.0, bytes([byte])) for byte in stream]
    assert read_events(one_by_one) == read_events([(0.0, stream)])
