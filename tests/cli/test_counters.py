"""twophase counters: the text, the JSON, a live server, the view, Prometheus, bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "counters" / "pages"
EXPECTED = json.loads((PAGES / "expected.json").read_text())
SGLANG = (PAGES / "sglang_t0.txt", PAGES / "sglang_t1.txt")
VLLM = (PAGES / "vllm_t0.txt", PAGES / "vllm_t1.txt")


@contextmanager
def server(*pages: str) -> Iterator[str]:
    """One page after the other, the last again and again; its URL."""
    left = list(pages)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (left.pop(0) if len(left) > 1 else left[0]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    own = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=own.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{own.server_port}"
    finally:
        own.shutdown()
        own.server_close()


def test_the_text_of_two_pages(run) -> None:
    status, out, err = run("counters", *SGLANG, "--window", "300")
    assert (status, err) == (0, "")
    assert out.startswith("SGLang  meta-llama/Llama-3.1-8B-Instruct, 300 s; 600 requests finished\n")
    for said in (
        r"prompt +1,200,000 +2,000 a request",
        r"computed +720,000 +40% cached",
        r"prefill : decode +8.00 : 1 +4.80 : 1 computed, after the cache",
        r"TTFT +520 ms +442 ms \(400 ms to 600 ms\]",
        r"of TTFT 38% is spent in the queue, 58% in prefill",
        r"busy 80% of the window",
        r"decode  38% prefill: exact, the engine's own seconds",
        r"Verdict  Decode dominates GPU time: prefill has 38% of it \(engine\)",
        r"resembles retrieval-augmented",
    ):
        assert re.search(said, out), said


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tgi", "llamacpp", "lmdeploy", "dynamo"])
def test_json_has_the_keys_of_the_truth(run, engine: str) -> None:
    pages = (PAGES / f"{engine}_t{at}.txt" for at in (0, 1))
    status, out, _ = run("counters", *pages, "--window", "300", "--json")
    found = json.loads(out)
    assert status == 0 and found["engine"] == engine
    for key, value in EXPECTED[engine].items():
        assert found[key] == (value if value is None else pytest.approx(value, rel=0.005)), key
    assert isinstance(found["verdict"], str) and found["dominant"] in ("prefill", "decode", "unknown")
    if engine == "vllm":
        half = found["ttft_s"]["p50"]
        assert half["low"] == 0.25 and half["high"] == 0.5 and half["low"] < half["value"] < half["high"]


def test_floors_of_the_model_that_the_page_names(run) -> None:
    status, out, _ = run("counters", *VLLM, "--window", "300", "--gpu", "h100-sxm", "--json")
    found = json.loads(out)
    assert status == 0 and found["phase_share"]["method"] == "roofline" and found["dominant"] == "decode"
    assert found["prefill_share_of_busy"] is None  # an estimate is never told as the engine's own
    mine = json.loads(
        run("counters", *VLLM, "--window", "300", "--gpu", "h100", "--model", "llama-3.1-8b", "--json")[1]
    )
    assert mine["phase_share"]["prefill"] == found["phase_share"]["prefill"]


def test_several_models(run, tmp_path: Path) -> None:
    for at, text in enumerate(("0", "9")):
        lines = (f'vllm:prompt_tokens_total{{model_name="{name}"}} {text}\n' for name in "ab")
        (tmp_path / f"{at}.txt").write_text("".join(lines))
    found = json.loads(run("counters", tmp_path / "0.txt", tmp_path / "1.txt", "--window", "1", "--json")[1])
    assert [(each["model"], each["prompt_tokens"]) for each in found["models"]] == [("a", 9), ("b", 9)]
    assert found["window_s"] == 1


def test_a_live_server(run) -> None:
    with server(*(each.read_text() for each in (VLLM[0], VLLM[0], VLLM[1]))) as url:
        status, out, _ = run("counters", url, "--interval", "300ms", "--json")
    found = json.loads(out)
    assert status == 0 and found["prompt_tokens"] == 1_200_000
    assert 0.25 < found["window_s"] < 5


def counters_in_a_process(url: str, *more: str) -> subprocess.Popen:
    code = "from twophase.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "counters", url, "--watch", "--interval", "200ms", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_watching_is_a_window_a_line_until_interrupted() -> None:
    with server(*(each.read_text() for each in (VLLM[0], VLLM[0], VLLM[1]))) as url:
        watching = counters_in_a_process(url, "--json")
        assert watching.stdout is not None
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=20)
    assert first["prompt_tokens"] == 1_200_000 and second["prompt_tokens"] == 0
    assert watching.returncode == 0 and "Traceback" not in err


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_the_view_ends_with_the_last_window() -> None:
    ours, theirs = os.openpty()
    with server(*(each.read_text() for each in (VLLM[0], VLLM[0], VLLM[1]))) as url:
        code = "from twophase.cli import main; main()"
        watching = subprocess.Popen(
            [sys.executable, "-c", code, "counters", url, "--watch", "--interval", "200ms"],
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "60"},
        )
        os.close(theirs)
        seen = ""
        until = time.monotonic() + 30
        while "8.00 : 1 billed" not in seen and time.monotonic() < until:
            seen += os.read(ours, 1 << 16).decode("utf-8", "replace")
        watching.send_signal(signal.SIGINT)
        rest = ""
        try:
            while piece := os.read(ours, 1 << 16):
                rest += piece.decode("utf-8", "replace")
        except OSError:  # Linux' way to say that the other end is closed
            pass
        assert watching.wait(20) == 0
    os.close(ours)
    assert "Ctrl-C ends" in seen and "8.00 : 1 billed" in seen
    assert "Verdict" in rest  # the last window, whole


def test_a_terminal_gets_the_same_words(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = run("counters", *SGLANG, "--window", "300", "--plain")[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    coloured = run("counters", *SGLANG, "--window", "300")[1]
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert "\x1b[1m" in coloured
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a server's URL, two pages of its /metrics, or --prometheus URL"),
        ([VLLM[0]], "one page tells what was since the start"),
        (["/no/such", VLLM[0]], "/no/such: no such file"),
        ([VLLM[0], SGLANG[1]], "is a page of vLLM"),
        ([*VLLM, "--window", "0"], "--window 0: give a time like 30s, 5m or 1h"),
        ([*VLLM, "--window", "a while"], "--window a while: give a time"),
        ([*VLLM, "--interval", "5s"], "--interval is of a server's URL"),
        ([*VLLM, "--watch"], "--watch is of a server's URL"),
        ([*VLLM, "--match", 'a="b"'], "--match is of --prometheus URL"),
        ([*VLLM, "--json", "--plain"], "give one of --json and --plain"),
        ([*VLLM, "--model", "llama-3.1-8b"], "give --gpu, too"),
        ([*VLLM, "--gpu", "h100-sxn"], "did you mean h100-sxm"),
        ([*VLLM, "--gpu", "h100", "--model", "llama-9"], "no model is called 'llama-9'"),
        ([*VLLM, "--curves", "/no/such"], "/no/such can't be read"),
        ([*VLLM, "--header", "oops"], "--header oops: give it as 'Name: value'"),
        ([*VLLM, "--timeout", "0"], "--timeout 0: must be greater than zero"),
        (["http://127.0.0.1:1"], "connection refused"),
        (["http://127.0.0.1:1", VLLM[0]], "give one URL, or two files"),
        (["http://127.0.0.1:1", "--window", "5"], "--window is of two files"),
        (["http://127.0.0.1:1", "--prometheus", "http://127.0.0.1:1"], "one of them"),
        (["--prometheus", "http://127.0.0.1:1"], "connection refused"),
        (["--prometheus", "http://127.0.0.1:1", "--watch"], "--watch is of a server's URL"),
        ([PAGES / "llamacpp_disabled.json", VLLM[0]], "start it as `llama-server --metrics`"),
        ([PAGES / "trtllm_metrics_empty.json"], "enable_iter_perf_stats: true"),
    ],
)
def test_bad_input_is_one_line(run, arguments: list[str], said: str) -> None:
    status, out, err = run("counters", *arguments)
    assert (status, out) == (2, "")
    assert said in err and err.count("\n") == 1


def test_heavy_imports_stay_out() -> None:
    code = (
        f"import sys; sys.argv = ['twophase', 'counters', {str(VLLM[0])!r}, {str(VLLM[1])!r}, '--plain']\n"
        "import twophase.cli\n"
        "try: twophase.cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'fastapi', 'prometheus_client'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
