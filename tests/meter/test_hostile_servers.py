"""Servers that never end, that compress unasked, that send what no file can hold: one line, or an outcome."""

import asyncio
import gzip
import json
import zlib
from pathlib import Path
from time import monotonic

import pytest
from scripted_server import END, PATH, STREAM, Script, call, chunked, saying, serving, target
from timed_server import timed_server

from twophase.cli import main
from twophase.errors import InputError
from twophase.meter.answers import answer_of
from twophase.meter.capabilities import Asked, Server, find_server
from twophase.meter.compression import MOST_INFLATED
from twophase.meter.connection import BYTES_A_TOKEN, LONGEST, LONGEST_HEAD
from twophase.meter.event_stream import read_events
from twophase.meter.exchange import Pool, exchange, run
from twophase.meter.reading import read_reply
from twophase.meter.records import Exchange, Reply

TOKEN = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
FINISH = b'data: {"choices": [{"delta": {}, "finish_reason": "length"}]}\n\ndata: [DONE]\n\n'
MODELS = b'{"data": [{"id": "m"}]}'


def ask(script: Script, timeout_s: float = 20.0) -> Exchange:
    async def once() -> Exchange:
        pool = Pool()
        async with serving(script) as (port, _):
            done = await exchange(pool, call(), target(port), PATH, 0.0, timeout_s)
            await pool.close()
            return done

    return run(once)


def reply_to(script: Script) -> Reply:
    return read_reply(ask(script), "chat")


def forever(head: bytes, piece: bytes) -> Script:
    async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()

    return script


def answer(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def found(script: Script, model: str | None = None) -> Server:
    async def once() -> Server:
        pool = Pool()
        async with serving(script) as (port, _):
            try:
                asked = Asked(f"http://127.0.0.1:{port}", model, timeout_s=5.0)
                return await find_server(pool, asked)
            finally:
                await pool.close()

    return run(once)


@pytest.mark.parametrize("piece", [TOKEN * 200, b"data: " + b"x" * 60_000, b": ping\n\n"])
def test_a_stream_without_end_is_cut_long_before_the_timeout(piece: bytes) -> None:
    began_s = monotonic()
    done = ask(forever(STREAM, chunked(piece)))
    assert (done.closing, done.error) == ("malformed", "cut off: the response is longer than 8 MiB")
    assert sum(len(data) for _, data in done.reads) < 2 * (LONGEST + 16 * BYTES_A_TOKEN)
    reply = read_reply(done, "chat")
    assert reply.outcome == ("truncated" if piece.startswith(TOKEN) else "failed")
    assert monotonic() - began_s < 15


def test_a_head_without_end_is_cut() -> None:
    for piece in (b"a" * 60_000, b"X-A: b\r\n" * 1000):
        done = ask(forever(b"HTTP/1.1 200 OK\r\nX: a\r\nX: ", piece))
        assert (done.closing, done.status) == ("malformed", 0)
        assert done.error == f"the response's head is longer than {LONGEST_HEAD >> 20} MiB"
    assert ask(forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n")).closing == "malformed"


def test_a_line_that_comes_in_a_million_pieces_takes_no_longer_than_in_one() -> None:
    began_s = monotonic()
    events, _ = read_events([(0.0, b"x")] * 1_000_000)
    assert not events
    assert monotonic() - began_s < 10  # by copying what was there for each piece it would be hours


def test_a_small_body_that_inflates_to_gigabytes_is_not_inflated() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range((MOST_INFLATED >> 20) + 9))
    reply = reply_to(saying(answer(bomb + packer.flush(), headers="Content-Encoding: gzip\r\n")))
    assert (reply.outcome, reply.reason) == ("failed", "the reply inflates to more than 64 MiB")


def test_what_is_compressed_unasked_is_read_all_the_same() -> None:
    stream = gzip.compress(TOKEN * 3 + FINISH)
    headers = "Content-Encoding: gzip\r\nContent-Type: text/event-stream\r\n"
    done = ask(saying(answer(stream, headers=headers)))
    assert answer_of(done) == "aaa"  # the next turn of a conversation
    assert read_reply(done, "chat").outcome == "finished"
    models = answer(gzip.compress(MODELS), headers="Content-Encoding: gzip\r\n")

    async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(models if request.startswith(b"GET") else STREAM + chunked(TOKEN, FINISH) + END)
        return True

    assert found(script).target.model == "m"


def test_a_refusal_is_one_whatever_its_body() -> None:
    damaged = answer(b"no gzip", "429 Too Many Requests", "Content-Encoding: gzip\r\n")
    assert reply_to(saying(damaged)).outcome == "rejected"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (answer(b"", "301 Moved", "Location: https://b.example/\r\n"), "moved to https://b.example/; give"),
        (
            answer(b'{"error": "away"}', "502 Bad Gateway"),
            r"lists no models at /v1/models \(HTTP 502: away\)",
        ),
        (answer(b"<html></html>"), "lists no models at /v1/models: give --model NAME"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "gives no answer at /v1/models: this is no HTTP response"),
        (answer(b'{"data": [{"id": "\\u001b[2J"}, {"id": "\\ud800"}, {"id": ""}]}'), "lists no models"),
    ],
)
def test_what_is_no_list_of_models_is_named(said: bytes, told: str) -> None:
    with pytest.raises(InputError, match=told):
        found(saying(said, stay=False))


def test_letters_that_no_file_holds_and_no_terminal_should_see_become_question_marks() -> None:
    wrong = rb'data: {"error": {"message": "a\ud800b \u001b[2J\u202e", "code": "\ud800"}}' + b"\n\n"
    reply = reply_to(saying(STREAM + chunked(TOKEN, wrong) + END))
    assert (reply.outcome, reply.reason) == ("failed", "a?b ?[2J? (?)")
    finish = rb'data: {"choices": [{"delta": {}, "finish_reason": "st\ud800op\u001b"}]}' + b"\n\n"
    assert reply_to(saying(STREAM + chunked(TOKEN, finish) + END)).finish_reason == "st?op?"


@pytest.mark.parametrize("option", ["--model", "--seed", "--gpu"])
def test_a_name_of_bytes_that_are_no_text_is_refused(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["twophase", "bench", "localhost:1", option, "a\udcff"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"twophase: {option} ")


def test_a_folder_whose_path_is_no_text_holds_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run\udcff"
    with timed_server() as timed:
        sizes = ["--prompt-tokens", "31", "--output-tokens", "3", "--requests", "3"]
        monkeypatch.setattr("sys.argv", ["twophase", "bench", timed.url, *sizes, "--out", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 0
    assert json.loads((folder / "run.json").read_text())["arguments"]["out"] == str(folder)
