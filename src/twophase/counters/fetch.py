"""A page over HTTP: with a time limit, a size limit, and keys that stay with the server that they are for."""

import socket
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from ssl import SSLError
from threading import Thread
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener, getproxies

from twophase.counters.page import LARGEST
from twophase.errors import InputError

ACCEPT = "text/plain;version=0.0.4, application/json;q=0.5, */*;q=0.1"
CHUNK = 1 << 16
GRACE_S = 0.5  # for the thread that asks to say itself what went wrong

SAID: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((ConnectionRefusedError,), "nobody listens there (connection refused)"),
    ((socket.gaierror, UnicodeError), "no such host"),
    ((RemoteDisconnected, IncompleteRead), "the server closed the connection before its answer was whole"),
    ((BadStatusLine,), "what answers there speaks no HTTP"),
)


@dataclass(frozen=True, slots=True)
class Target:
    url: str  # without what it held of a password
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content: bytes
    at_s: float  # time.monotonic() as it began


def target(url: str, headers: Mapping[str, str], timeout_s: float) -> Target:
    """InputError for what is no URL; a name and password in it become a header."""
    parts = split_url(url)
    if parts.username is None:
        return Target(url, headers, timeout_s)
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    netloc = parts.netloc.rpartition("@")[2]
    basic = {"Authorization": f"Basic {b64encode(secret.encode()).decode()}"}
    return Target(urlunsplit(parts._replace(netloc=netloc)), {**basic, **headers}, timeout_s)


def split_url(url: str) -> SplitResult:
    shown = url.rpartition("@")[2]  # what stands before it may be a password
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"{shown}: {error}; give a URL like http://host:8000") from None
    spaced = any(letter.isspace() or not letter.isprintable() for letter in url)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or spaced:
        raise InputError(f"{shown!r} is no URL: give one like http://host:8000")
    if not url.isascii():
        raise InputError(f"{shown}: letters beyond ASCII are written as xn-- in hosts and %XX in paths")
    return parts


def with_path(own: Target, path: str, query: str = "") -> Target:
    return replace(own, url=urlunsplit(urlsplit(own.url)._replace(path=path, query=query, fragment="")))


class _Faithful(HTTPRedirectHandler):
    """Keys don't follow to another host."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            fp.close()
            raise InputError(f"{req.full_url} redirects to {newurl}: give that URL")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(own: Target) -> Answer:
    """Any status; InputError where nobody answers in time, or too much comes.

    In a thread: the socket's own limit is of each part that comes, and a head may come a letter at a time.
    """
    found: list[Answer | BaseException] = []

    def ask() -> None:
        try:
            found.append(_fetched(own))
        except BaseException as error:
            found.append(error)

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(own.timeout_s + GRACE_S)
    if not found:
        raise InputError(f"{own.url}: no answer within {own.timeout_s:g} s")
    answer = found.pop()
    if isinstance(answer, Answer):
        return answer
    try:
        raise answer
    finally:
        del answer  # an error that its own frame holds would keep its socket open


def _fetched(own: Target) -> Answer:
    local = (urlsplit(own.url).hostname or "") in ("localhost", "127.0.0.1", "::1")
    opener = build_opener(_Faithful, ProxyHandler({} if local else getproxies()))
    limit = time.monotonic() + own.timeout_s
    try:
        asked = Request(own.url, headers={"Accept": ACCEPT, "User-Agent": "twophase", **own.headers})
        try:
            answer = opener.open(asked, timeout=own.timeout_s)
        except HTTPError as error:
            answer = error
        with answer:
            at = time.monotonic()
            return Answer(answer.status or 0, _content(answer, own, limit), at)
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise InputError(f"{own.url}: {_reason(error, own)}") from None


def _content(answer: Any, own: Target, limit: float) -> bytes:
    """A server that sends a byte a second is not waited for."""
    parts, size = [], 0
    while part := answer.read1(CHUNK):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise InputError(f"{own.url} sends more than {LARGEST >> 20} MiB: that is no page of counters")
        if time.monotonic() > limit:
            raise TimeoutError
    return b"".join(parts)


def _reason(error: Exception, own: Target) -> str:
    inner = error.reason if isinstance(error, URLError) else error
    if isinstance(inner, TimeoutError):
        return f"no answer within {own.timeout_s:g} s"
    if isinstance(inner, SSLError):
        return f"TLS failed: {inner.reason or inner}"
    for kinds, said in SAID:
        if isinstance(inner, kinds):
            return said
    known = isinstance(inner, OSError) and inner.strerror
    return known or str(inner) or type(inner).__name__
