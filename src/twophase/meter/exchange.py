"""One request sent and its response's bytes taken down, over connections that are kept and used again."""

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import lru_cache
from time import monotonic
from typing import Any, TypeVar

from twophase import __version__
from twophase.errors import InputError
from twophase.meter.connecting import Origin, connect, origin_of
from twophase.meter.connection import Connection
from twophase.meter.proxy import basic_authorization, split_url
from twophase.meter.records import Call, Closing, Exchange, Target

Result = TypeVar("Result")

LEAST_FILES = 65_536  # connections of a large load: each is an open file


class Pool:
    """Connections to any servers: those at rest, and those with an exchange on them."""

    def __init__(self) -> None:
        self.idle: dict[Origin, list[Connection]] = {}
        self.busy: set[Connection] = set()
        self.opened = 0  # connections made so far

    def take(self, origin: Origin) -> Connection | None:
        """The connection that rested last, if one is still open."""
        resting = self.idle.get(origin, [])
        while resting:
            connection = resting.pop()
            if not connection.closed:
                return connection
        return None

    def give(self, origin: Origin, connection: Connection) -> None:
        if connection.reusable and not connection.closed:
            self.idle.setdefault(origin, []).append(connection)
        else:
            connection.abort()

    def cancel(self, why: str = "cancelled") -> None:
        """End every exchange now: each returns as far as it came, its closing "cancelled"."""
        for connection in tuple(self.busy):
            connection.stop("cancelled", why)

    async def close(self) -> None:
        self.cancel("the pool was closed")
        for resting in self.idle.values():
            for connection in resting:
                connection.abort()
        self.idle.clear()
        await asyncio.sleep(0)  # the transports close in the loop's next turn


async def exchange(
    pool: Pool, call: Call, target: Target, path: str, due_s: float, timeout_s: float
) -> Exchange:
    """POST one call's body. Never raises for what the network or the server does: that is its closing."""
    return await trade(pool, call, target, "POST", path, due_s, timeout_s)


async def fetch(
    pool: Pool, target: Target, method: str, path: str, body: bytes = b"", timeout_s: float = 10.0
) -> Exchange:
    """Any other request of the server: its list of models, its counters."""
    return await trade(pool, Call(0, body, 0, 0), target, method, path, monotonic(), timeout_s)


async def trade(
    pool: Pool, call: Call, target: Target, method: str, path: str, due_s: float, timeout_s: float
) -> Exchange:
    request = request_head(target, method, path) % len(call.body) + call.body
    origin = origin_of(target)
    began_s = monotonic()
    done = Exchange(call, due_s, began_s)
    connection = pool.take(origin)
    while True:
        fresh = connection is None
        if connection is None:
            done.connected = True
            try:
                async with asyncio.timeout(began_s + timeout_s - monotonic()):
                    connection = await connect(origin)
            except TimeoutError:
                return refused(done, "timeout", f"no connection within {timeout_s:g} s")
            except (OSError, UnicodeError) as error:  # the latter of a name that can't be one
                return refused(done, "refused", why_refused(origin, error))
            pool.opened += 1
        await converse(pool, connection, done, request, began_s + timeout_s, timeout_s)
        pool.give(origin, connection)
        if fresh or done.status or done.closing not in ("eof", "reset"):
            return done
        # the server closed a resting connection before it saw the request: that says nothing about it
        done = Exchange(call, due_s, began_s)
        connection = None


async def converse(
    pool: Pool, connection: Connection, done: Exchange, request: bytes, deadline_s: float, timeout_s: float
) -> None:
    def time_out() -> None:
        connection.stop("timeout", f"no end within {timeout_s:g} s")

    ended = connection.begin(done, request)
    timer = asyncio.get_running_loop().call_later(max(0.0, deadline_s - monotonic()), time_out)
    pool.busy.add(connection)
    try:
        await ended
    except asyncio.CancelledError:
        connection.stop("cancelled", "cancelled")
        raise
    finally:
        timer.cancel()
        pool.busy.discard(connection)


def refused(done: Exchange, closing: Closing, why: str) -> Exchange:
    done.sent_s = done.closed_s = monotonic()
    done.closing = closing
    done.error = why
    return done


def why_refused(origin: Origin, error: OSError | UnicodeError) -> str:
    if not isinstance(error, OSError):
        return f"no host has a name like {origin.host}: {error}"
    if error.errno == errno.EMFILE:
        return "too many open files: raise the limit with `ulimit -n`"
    reason = error.strerror or str(error) or type(error).__name__
    return f"no connection to {origin.host}:{origin.port}: {reason}"


@lru_cache(maxsize=64)
def request_head(target: Target, method: str, path: str) -> bytes:
    """The request's head, with %d where the length of its body goes."""
    parts = split_url(target.url)
    origin = origin_of(target)
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    usual = 443 if origin.tls else 80
    if origin.port != usual:
        host = f"{host}:{origin.port}"
    where = parts.path.rstrip("/") + path
    headers = {
        "Host": host,
        "User-Agent": f"twophase/{__version__}",
        "Accept": "text/event-stream, application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    if own := basic_authorization(parts):
        headers["Authorization"] = own
    if origin.proxy is not None and not origin.tls:
        where = f"http://{host}{where}"
        if origin.proxy.authorization:
            headers["Proxy-Authorization"] = origin.proxy.authorization
    for name, value in target.headers:
        if not name or not all(33 <= ord(letter) < 127 and letter != ":" for letter in name):
            raise InputError(f"header {name!r}: a name has letters, digits and dashes, like X-Team")
        if not all(letter == "\t" or (32 <= ord(letter) < 256 and letter != "\x7f") for letter in value):
            raise InputError(f"header {name}: its value has a line end, or a letter that HTTP can't carry")
        for known in [known for known in headers if known.lower() == name.lower()]:
            del headers[known]
        headers[name] = value.strip()
    if any(letter <= " " or letter >= "\x7f" for letter in where):
        raise InputError(f"{target.url}: a path has no space and no letter outside ASCII; write them as %XX")
    lines = [f"{method} {where} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    head = "\r\n".join(lines).encode("latin-1").replace(b"%", b"%%")
    return head + b"\r\nContent-Length: %d\r\n\r\n"


def run(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine on the fastest loop there is, with as many open files as the machine allows."""
    raise_file_limit()
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())


def raise_file_limit() -> None:
    if os.name != "posix":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LEAST_FILES if hard == resource.RLIM_INFINITY else min(LEAST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
