"""The wire: connections kept, ends of every kind told apart, stamps where the bytes were read."""

import asyncio
from time import monotonic

import pytest
from scripted_server import END, JSON, PATH, STREAM, Script, call, chunked, saying, serving, target

from twophase.errors import InputError
from twophase.meter.compression import body_of
from twophase.meter.connecting import origin_of
from twophase.meter.exchange import Pool, exchange, fetch, request_head, run
from twophase.meter.records import Exchange, Target


def ask(script: Script, timeout_s: float = 5.0) -> Exchange:
    """One exchange with a server of this script."""

    async def main() -> Exchange:
        pool = Pool()
        async with serving(script) as (port, _):
            done = await exchange(pool, call(), target(port), PATH, 0.0, timeout_s)
            await pool.close()
            return done

    return run(main)


def test_bytes_are_stamped_as_they_come_and_framing_is_gone() -> None:
    async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM)
        await asyncio.sleep(0.05)
        writer.write(chunked(b"data: a\n\n", b"data: b\n\n"))
        await asyncio.sleep(0.05)
        writer.write(chunked(b"data: [DONE]\n\n") + END)
        return True

    before_s = monotonic()
    done = ask(script)
    assert (done.status, done.closing, done.content_type, done.connected) == (
        200,
        "complete",
        "text/event-stream",
        True,
    )
    assert b"".join(piece for _, piece in done.reads) == b"data: a\n\ndata: b\n\ndata: [DONE]\n\n"
    times = [at_s for at_s, _ in done.reads]
    assert times[0] == times[1] < times[2]  # two chunks of one read are of one time
    assert done.head_s is not None and done.closed_s is not None
    assert (
        before_s
        < done.began_s
        <= done.sent_s
        < done.head_s
        < times[0]
        < times[2]
        <= done.closed_s
        < monotonic()
    )
    assert times[0] - done.sent_s >= 0.045
    assert times[2] - times[0] >= 0.045


def test_a_connection_is_used_again_and_only_then() -> None:
    async def main() -> None:
        pool = Pool()
        async with serving(saying(JSON)) as (port, seen):
            ends = [await exchange(pool, call(), target(port), PATH, 0.0, 5.0) for _ in range(3)]
            assert [done.connected for done in ends] == [True, False, False]
            at_once = [exchange(pool, call(), target(port), PATH, 0.0, 5.0) for _ in range(4)]
            assert all(done.closing == "complete" for done in await asyncio.gather(*at_once))
            assert seen.connections == pool.opened == 4
            assert len(seen.requests) == 7
            await pool.close()

    run(main)
    asyncio.run(main())  # without uvloop, too


def test_a_server_that_closes_after_each_reply_gets_a_connection_each() -> None:
    async def main() -> None:
        pool = Pool()
        closing = JSON.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        async with serving(saying(closing, stay=False)) as (port, seen):
            ends = [await exchange(pool, call(), target(port), PATH, 0.0, 5.0) for _ in range(3)]
            assert all(done.closing == "complete" and done.connected for done in ends)
            assert seen.connections == 3
            await pool.close()

    run(main)


def test_a_connection_that_went_stale_is_replaced_once_and_unseen() -> None:
    """The server answers once a connection, and closes without a word when asked again."""

    async def main() -> None:
        answered: set[int] = set()

        async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            if id(writer) in answered:
                return False
            answered.add(id(writer))
            writer.write(JSON)
            return True

        pool = Pool()
        async with serving(script) as (port, seen):
            first = await exchange(pool, call(), target(port), PATH, 0.0, 5.0)
            second = await exchange(pool, call(), target(port), PATH, 0.0, 5.0)
            assert (first.closing, second.closing, second.connected) == ("complete", "complete", True)
            assert seen.connections == 2
            await pool.close()

    run(main)


def test_a_server_that_says_nothing_on_a_fresh_connection_is_asked_once() -> None:
    async def main() -> None:
        pool = Pool()
        async with serving(saying(b"", stay=False)) as (port, seen):
            done = await exchange(pool, call(), target(port), PATH, 0.0, 5.0)
            assert (done.closing, done.status, len(seen.requests)) == ("eof", 0, 1)
            await pool.close()

    run(main)


@pytest.mark.parametrize(
    ("answer", "closing"),
    [
        (STREAM + chunked(b"data: a\n\n"), "eof"),
        (STREAM + chunked(b"data: a\n\n") + END, "complete"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort", "eof"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n",
            "complete",
        ),  # ends with it
        (b"HTTP/1.0 200 OK\r\n\r\n", "complete"),
        (b"HTTP/1.1 200 OK\r\nConte", "eof"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "malformed"),
        (STREAM + b"zz\r\n", "malformed"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "malformed"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + JSON, "complete"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "complete"),
    ],
)
def test_every_end_of_a_response(answer: bytes, closing: str) -> None:
    done = ask(saying(answer, stay=False))
    assert done.closing == closing
    assert (done.error == "") == (closing == "complete")
    if b"100 Continue" in answer:
        assert (done.status, body_of(done)) == (200, b"{}")


def test_a_timeout_keeps_what_had_come() -> None:
    async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM + chunked(b"data: a\n\n"))
        await asyncio.sleep(3)
        return True

    done = ask(script, timeout_s=0.1)
    assert (done.closing, done.error, len(done.reads)) == ("timeout", "no end within 0.1 s", 1)


def test_a_stream_that_said_done_is_not_waited_for_until_the_timeout() -> None:
    async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM + chunked(b"data: a\n\n", b"data: [DONE]\n\n"))
        await asyncio.sleep(30)
        return True

    began_s = monotonic()
    done = ask(script, timeout_s=25.0)
    assert (done.closing, len(done.reads)) == ("complete", 2)
    assert monotonic() - began_s < 20


def test_cancelling_ends_all_and_keeps_what_had_come() -> None:
    async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM + chunked(b"data: a\n\n"))
        await asyncio.sleep(3)
        return True

    async def main() -> None:
        pool = Pool()
        async with serving(script) as (port, _):
            asked = [
                asyncio.ensure_future(exchange(pool, call(), target(port), PATH, 0.0, 5.0)) for _ in range(3)
            ]
            await asyncio.sleep(0.2)
            asked[0].cancel()
            await asyncio.sleep(0)
            pool.cancel("the run is over")
            with pytest.raises(asyncio.CancelledError):
                await asked[0]
            for each in asked[1:]:
                done = await each
                assert (done.closing, done.error, len(done.reads)) == ("cancelled", "the run is over", 1)
            assert not pool.busy
            await pool.close()

    run(main)


def test_nobody_listens() -> None:
    async def main() -> None:
        async with serving(saying(b"")) as (port, _):
            pass
        done = await exchange(Pool(), call(), target(port), PATH, 0.0, 5.0)
        assert (done.closing, done.status) == ("refused", 0)
        assert f"127.0.0.1:{port}" in done.error
        named = await exchange(Pool(), call(), Target("http://a..b", "m", "chat", proxy=""), PATH, 0.0, 5.0)
        assert (named.closing, named.status) == ("refused", 0)

    run(main)


def test_the_request_has_all_its_bytes_and_the_users_headers() -> None:
    body = b'{"prompt":"' + b"x" * 2_000_000 + b'"}'

    async def main() -> None:
        pool = Pool()
        asked = target(
            0, headers=(("Authorization", "Bearer k"), ("accept", "text/plain"), ("X-100%", "a%b"))
        )
        async with serving(saying(JSON)) as (port, seen):
            url = f"http://127.0.0.1:{port}/prefix/"
            asked = Target(url, "m", "chat", headers=asked.headers)
            done = await exchange(pool, call(body), asked, PATH, 0.0, 5.0)
            await pool.close()
        head, _, received = seen.requests[0].partition(b"\r\n\r\n")
        assert received == body
        lines = head.decode().split("\r\n")
        assert lines[0] == f"POST /prefix{PATH} HTTP/1.1"
        assert f"Host: 127.0.0.1:{port}" in lines
        assert {
            "Authorization: Bearer k",
            "accept: text/plain",
            "X-100%: a%b",
            "Accept-Encoding: identity",
        } < set(lines)
        assert sum(line.lower().startswith("accept:") for line in lines) == 1
        assert done.sent_s >= done.began_s

    run(main)


def test_the_servers_own_pages() -> None:
    async def main() -> None:
        pool = Pool()
        named = JSON.replace(b"\r\n\r\n", b"\r\nServer: uvicorn\r\n\r\n")
        async with serving(saying(named)) as (port, seen):
            done = await fetch(pool, target(port), "GET", "/v1/models")
            await pool.close()
        assert seen.requests[0].startswith(b"GET /v1/models HTTP/1.1\r\n")
        assert (body_of(done), dict(done.headers)["server"]) == (b"{}", "uvicorn")

    run(main)


def test_credentials_of_the_url_and_hosts_of_every_kind() -> None:
    head = request_head(Target("http://me:p%40ss@h:80", "m", "chat", proxy=""), "GET", "/v1/models").decode()
    assert "Host: h\r\n" in head
    assert "Authorization: Basic bWU6cEBzcw==\r\n" in head  # me:p@ss
    assert (
        "Host: [::1]:8000\r\n" in request_head(Target("http://[::1]:8000", "m", "chat"), "GET", "/").decode()
    )
    assert origin_of(Target("https://h", "m", "chat", proxy="")).port == 443


@pytest.mark.parametrize(
    ("url", "headers", "said"),
    [
        ("ftp://h", (), "ftp://h: give http://host:port or https://host"),
        ("localhost:8000", (), "give http://"),
        ("http://h:99999", (), "h:99999"),
        ("http://", (), "give http://"),
        ("http://h/a b", (), "a space"),
        ("http://h", (("X", "a\r\nY: b"),), "header X"),
        ("http://h", (("X Y", "a"),), "header 'X Y'"),
        ("http://h", (("X", "\u20ac"),), "header X"),
    ],
)
def test_what_can_not_be_asked(url: str, headers: tuple[tuple[str, str], ...], said: str) -> None:
    with pytest.raises(InputError, match=None) as caught:
        request_head(Target(url, "m", "chat", headers=headers, proxy=""), "GET", "/")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_password_is_not_repeated_in_an_error() -> None:
    with pytest.raises(InputError) as caught:
        request_head(Target("ftp://me:secret@h", "m", "chat"), "GET", "/")
    assert "secret" not in str(caught.value)
