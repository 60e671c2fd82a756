"""A server on this machine that answers by path, and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, str]
Answers = Callable[[str, Mapping[str, list[str]], Mapping[str, str]], Answer]  # path, query, headers


@contextmanager
def serving(answer: Answers) -> Iterator[str]:
    """Its URL. A status of 3xx answers with the text as its Location."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            status, text = answer(parts.path, parse_qs(parts.query), dict(self.headers))
            body = text.encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def prometheus(series: list[tuple[dict[str, str], Callable[[float], float | None]]]) -> Answers:
    """A tiny Prometheus: each series is its labels and its value at a time, None where it is not there."""

    def answer(path: str, query: Mapping[str, list[str]], headers: Mapping[str, str]) -> Answer:
        start, end = (float(query.get(name, ["0"])[0]) for name in ("start", "end"))
        if path == "/api/v1/label/__name__/values":
            return _success(sorted({labels["__name__"] for labels, _ in series}))
        if path != "/api/v1/query_range":
            return 404, "not found"
        step = float(query["step"][0])
        selector = query["query"][0]
        names = selector.split('"')[1].replace("\\", "").split("|")
        found = []
        for labels, value in series:
            steps = int((end - start) / step) + 1
            times = [start + at * step for at in range(steps)]
            points = [(at, own) for at in times if (own := value(at)) is not None]
            if labels["__name__"] in names and points:
                found.append({"metric": labels, "values": [[at, str(own)] for at, own in points]})
        return _success({"resultType": "matrix", "result": found})

    return answer


def _success(data: Any) -> Answer:
    return 200, json.dumps({"status": "success", "data": data})
