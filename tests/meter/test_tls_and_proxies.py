"""TLS, and proxies with and without it, against servers of this process."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from scripted_server import JSON, PATH, Script, call, saying, serving

from twophase.meter.connecting import connect, origin_of, tls_context
from twophase.meter.exchange import Pool, exchange, run
from twophase.meter.records import Target

PEM = Path(__file__).parent / "model_test.pem"  # of model.test, signed by itself


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


def test_tls_is_verified_unless_told_not_to() -> None:
    async def main() -> None:
        pool = Pool()
        async with serving(saying(JSON), ssl=server_tls()) as (port, _):
            strict = Target(f"https://127.0.0.1:{port}", "m", "chat")
            loose = Target(f"https://127.0.0.1:{port}", "m", "chat", verify_tls=False)
            refused = await exchange(pool, call(), strict, PATH, 0.0, 5.0)
            assert (refused.closing, refused.status) == ("refused", 0)
            assert "certificate" in refused.error.lower()
            done = [await exchange(pool, call(), loose, PATH, 0.0, 5.0) for _ in range(2)]
            assert [(each.closing, each.connected) for each in done] == [
                ("complete", True),
                ("complete", False),
            ]
            await pool.close()

    run(main)


def test_plain_requests_through_a_proxy_name_the_whole_url() -> None:
    async def main() -> None:
        pool = Pool()
        async with serving(saying(JSON)) as (port, seen):
            through = Target("http://model.test:8000", "m", "chat", proxy=f"http://me:you@127.0.0.1:{port}")
            done = await exchange(pool, call(), through, PATH, 0.0, 5.0)
            await pool.close()
        assert done.closing == "complete"
        assert seen.requests[0].startswith(b"POST http://model.test:8000/v1/chat/completions HTTP/1.1\r\n")
        assert b"\r\nHost: model.test:8000\r\n" in seen.requests[0]
        assert b"\r\nProxy-Authorization: Basic bWU6eW91\r\n" in seen.requests[0]  # me:you

    run(main)


def tunnelling(port: int) -> Script:
    """A proxy that connects whatever is asked for to this port."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        writer.close()

    async def script(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))
        finally:
            there_writer.transport.abort()
        return False

    return script


@pytest.mark.parametrize("loop", [run, lambda main: asyncio.run(main())])
def test_tls_goes_through_a_tunnel_of_the_proxy(loop: Callable[[object], None]) -> None:
    async def main() -> None:
        pool = Pool()
        async with (
            serving(saying(JSON), ssl=server_tls()) as (port, seen),
            serving(tunnelling(port)) as (proxy, asked),
        ):
            through = Target("https://model.test", "m", "chat", proxy=f"127.0.0.1:{proxy}", verify_tls=False)
            done = [await exchange(pool, call(), through, PATH, 0.0, 5.0) for _ in range(2)]
            await pool.close()
            assert [(each.closing, each.connected) for each in done] == [
                ("complete", True),
                ("complete", False),
            ]
            assert asked.requests[0].startswith(b"CONNECT model.test:443 HTTP/1.1\r\n")
            assert len(asked.requests) == 1
            assert seen.requests[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")

    loop(main)


def test_a_certificate_is_held_against_the_host_and_not_the_proxy() -> None:
    async def main() -> None:
        async with (
            serving(saying(JSON), ssl=server_tls()) as (port, _),
            serving(tunnelling(port)) as (proxy, _),
        ):
            tls_context(True).load_verify_locations(PEM)
            try:
                origin = origin_of(
                    Target("https://model.test", "m", "chat", proxy=f"http://127.0.0.1:{proxy}")
                )
                (await connect(origin)).abort()
                other = origin_of(
                    Target("https://other.test", "m", "chat", proxy=f"http://127.0.0.1:{proxy}")
                )
                with pytest.raises(ssl.SSLCertVerificationError):
                    await connect(other)
            finally:
                tls_context.cache_clear()

    run(main)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
            "the proxy answered HTTP 407",
        ),
        (b"", "the proxy closed the connection"),
        (b"220 smtp ready\r\n", "no HTTP response"),
    ],
)
def test_a_proxy_that_will_not(answer: bytes, said: str) -> None:
    async def main() -> None:
        async with serving(saying(answer, stay=False)) as (port, _):
            through = Target("https://model.test", "m", "chat", proxy=f"http://127.0.0.1:{port}")
            done = await exchange(Pool(), call(), through, PATH, 0.0, 5.0)
            assert (done.closing, done.status) == ("refused", 0)
            assert said in done.error

    run(main)
