"""From an open engine to a process that serves until it is told to stop."""

import gc
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from twophase.errors import InputError
from twophase.server.service import Service

POLL_S = 0.05
BACKLOG = 2048
KEEP_ALIVE_S = 75
LAST_WORDS_S = 1.0  # for answers that say that the time is up
SWITCH_S = 0.0005  # the engine's thread gives way to the event loop so soon, not after Python's 5 ms


def bind(host: str, port: int) -> socket.socket:
    """A socket that has the address and doesn't listen yet; InputError where there can be none."""
    where = f"--host {host} --port {port}"
    try:
        kind, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a name of a host"
        raise InputError(f"{where}: {reason}") from None
    found = socket.socket(kind, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        raise InputError(f"{where}: {error.strerror}") from None
    return found


def address_of(found: socket.socket) -> str:
    host, port = found.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class DrainingServer(uvicorn.Server):
    """The first SIGTERM or SIGINT drains: no new requests, running ones finish, within `drain_s`. The second
    stops at once.
    """

    def __init__(self, app: FastAPI, service: Service, drain_s: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="error",
                access_log=False,
                lifespan="off",
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=LAST_WORDS_S,  # type: ignore[arg-type]
                server_header=False,
            )
        )
        self._service, self._drain_s = service, drain_s
        self.hurried = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.draining:
            self.hurried = self.should_exit = self.force_exit = True
            return
        self._service.drain()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        deadline = self._drain_s
        event = threading.Event()
        while not self._service.idle and deadline > 0 and not self.should_exit:
            event.wait(POLL_S)
            deadline -= POLL_S
        self._service.stop(0.0)
        # What has been generated is still on its way to clients that read slowly.
        self.config.timeout_graceful_shutdown = max(1, round(deadline))
        self.should_exit = True


def serve(
    app: FastAPI, service: Service, listening: socket.socket, drain_s: float, ready: Callable[[], None]
) -> bool:
    """Until a signal says so. False where a second one cut it short."""
    sys.setswitchinterval(SWITCH_S)
    server = DrainingServer(app, service, drain_s)
    try:
        listening.listen(BACKLOG)
    except OSError as error:  # someone else has begun to, meanwhile
        raise InputError(f"{address_of(listening)}: {error.strerror}") from None
    service.start()
    ready()
    server.run(sockets=[listening])
    service.stop(LAST_WORDS_S)
    gc.freeze()  # else leaving looks through kernels and vocabulary for garbage, for seconds
    return not server.hurried
