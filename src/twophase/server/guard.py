"""What no request gets past: its key, its body's size and kind. Plain ASGI, before anything is parsed."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from hmac import compare_digest

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twophase.server.errors import ApiError

BODY_S = 60.0  # that a client may take to send its body
OPEN_PATHS = frozenset({"/health", "/metrics", "/version", "/openapi.json"})


@dataclass(frozen=True, slots=True)
class Guard:
    """`keys`: any of them opens all paths but OPEN_PATHS; without one everything is open."""

    app: ASGIApp
    keys: Collection[str]
    max_body: int  # bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            if self.keys and scope["path"] not in OPEN_PATHS:
                self._require_key(headers)
            if scope["method"] == "POST":
                receive = await self._whole_body(headers, receive)
        except ApiError as error:
            await error.response()(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _require_key(self, headers: dict[bytes, bytes]) -> None:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        right = [compare_digest(given.strip(), key.encode()) for key in self.keys]  # all of them, each time
        if scheme.lower() != b"bearer" or not any(right):
            raise ApiError(
                401,
                "no valid API key: send it as 'Authorization: Bearer KEY'",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    async def _whole_body(self, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise ApiError(415, "send the body as application/json: -H 'Content-Type: application/json'")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > self.max_body:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ApiError(400, "the client went away")
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self.max_body:
                        raise self._too_large()
        except TimeoutError:
            raise ApiError(
                408, f"the body did not arrive within {BODY_S:g} s", headers={"Connection": "close"}
            ) from None
        return _replayed(bytes(body), receive)

    def _too_large(self) -> ApiError:
        return ApiError(
            413,
            f"the body is larger than {self.max_body} bytes",
            code="body_too_large",
            headers={"Connection": "close"},
        )


def _replayed(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
