"""New connections: plain, with TLS, and through an HTTP proxy."""

import asyncio
import os
import ssl
from dataclasses import dataclass
from functools import lru_cache

from httptools import HttpParserError, HttpResponseParser

from twophase.meter.connection import Connection
from twophase.meter.proxy import Proxy, proxy_of, read_proxy, split_url
from twophase.meter.records import Target


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a connection leads: requests of the same origin may share one."""

    host: str
    port: int
    tls: bool
    verify: bool
    proxy: Proxy | None


@lru_cache(maxsize=64)
def origin_of(target: Target) -> Origin:
    """A proxy is the target's own, else the environment's; a target's empty one means none."""
    parts = split_url(target.url)
    tls = parts.scheme == "https"
    through = proxy_of(target.url, os.environ) if target.proxy is None else target.proxy
    return Origin(
        parts.hostname or "",
        parts.port or (443 if tls else 80),
        tls,
        target.verify_tls,
        read_proxy(through) if through else None,
    )


@lru_cache(maxsize=2)
def tls_context(verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def connect(origin: Origin) -> Connection:
    """A connection ready for a request. OSError where there is none to be had; TLS's errors are its kind."""
    loop = asyncio.get_running_loop()
    context = tls_context(origin.verify) if origin.tls else None
    if origin.proxy is None:
        _, connection = await loop.create_connection(Connection, origin.host, origin.port, ssl=context)
        return connection
    if context is None:
        _, connection = await loop.create_connection(Connection, origin.proxy.host, origin.proxy.port)
        return connection
    return await connect_through(origin, origin.proxy, context)


class Tunnel(asyncio.Protocol):
    """Asks a proxy for a tunnel; `open` is done when it stands."""

    def __init__(self) -> None:
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parser = HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserError as error:
            self.fail(f"the proxy's answer is no HTTP response: {error}")

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status >= 300:
            self.fail(f"the proxy answered HTTP {status}")
        elif status >= 200 and not self.open.done():
            self.open.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.fail("the proxy closed the connection")

    def fail(self, why: str) -> None:
        if not self.open.done():
            self.open.set_exception(ConnectionError(why))


async def connect_through(origin: Origin, proxy: Proxy, context: ssl.SSLContext) -> Connection:
    loop = asyncio.get_running_loop()
    transport, tunnel = await loop.create_connection(Tunnel, proxy.host, proxy.port)
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    where = f"{host}:{origin.port}"
    lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    try:
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await tunnel.open
        connection = Connection()
        secured = await loop.start_tls(transport, connection, context, server_hostname=origin.host)
    except BaseException:
        transport.abort()
        raise
    assert secured is not None
    connection.connection_made(secured)
    return connection
