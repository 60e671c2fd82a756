"""The process: what it prints, how it ends, and what it refuses in one line."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from twophase.scheduler.policy import POLICIES

TWOPHASE = [sys.executable, "-c", "from twophase.cli import main; main()", "serve"]
STANDIN = ["llama-3.1-8b", "--clock", "roofline", "--port", "0"]
PLAIN = {**os.environ, "NUMBA_DISABLE_JIT": "1"}


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and its address as it prints it."""
    pipe, command = subprocess.PIPE, [*TWOPHASE, *STANDIN, *arguments]
    started = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=PLAIN)
    try:
        assert started.stdout is not None
        for line in started.stdout:
            if found := re.search(r"curl (http://127\.0\.0\.1:\d+)/v1", line):
                break
        yield started, found[1]
    finally:
        started.kill()
        started.communicate()


def streamed(url: str, tokens: int, received: list[str]) -> threading.Thread:
    """A chat, read in a thread of its own."""

    def read() -> None:
        body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": tokens, "stream": True}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=30) as answer:
            received.extend(line for line in answer.iter_lines() if line)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def until_running(url: str) -> None:
    end = time.monotonic() + 10
    running = 'num_requests_running{engine="0",model_name="llama-3.1-8b"} 1.0'
    while running not in httpx.get(f"{url}/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_sigterm_drains() -> None:
    received: list[str] = []
    with process() as (server, url):
        reader = streamed(url, 800, received)  # at about 4.5 ms each
        until_running(url)
        server.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert httpx.get(f"{url}/health").status_code == 503
        refused = httpx.post(f"{url}/v1/completions", json={"prompt": "a"})
        assert refused.json()["error"]["code"] == "shutting_down"
        assert server.wait(20) == 0
        reader.join()
        _, errors = server.communicate()
    assert received[-1] == "data: [DONE]"
    assert len(received) == 801
    assert errors == ""


def test_a_drain_has_an_end() -> None:
    received: list[str] = []
    with process("--drain-timeout", "0.3") as (server, url):
        reader = streamed(url, 100_000, received)
        until_running(url)
        began = time.monotonic()
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
        assert time.monotonic() - began < 5
        reader.join()
        assert server.communicate()[1] == ""
    assert "shutting down" in received[-1]


def test_a_second_signal_ends_it_at_once() -> None:
    with process() as (server, url):
        reader = streamed(url, 100_000, [])
        until_running(url)
        server.send_signal(signal.SIGINT)
        time.sleep(0.3)
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 130
        reader.join()


def test_a_faster_clock() -> None:
    a_token = 15.01e9 / 300e9  # 7.5 G matrix parameters in BF16 at an L4's 300 GB/s
    options = ["--gpu", "l4", "--context-length", "1000", "--speed", "5", "--served-model-name", "m"]
    with process(*options) as (_, url):
        body = {"model": "m", "prompt": "a", "max_tokens": 21}
        began = time.perf_counter()
        httpx.post(f"{url}/v1/completions", json=body).raise_for_status()
        took = time.perf_counter() - began
        page = httpx.get(f"{url}/metrics").text
    assert 21 * a_token / 5 <= took < 21 * a_token  # faster than what it stands for
    told = re.search(r'phase_seconds_total{.*phase="decode"} (\S+)', page)
    assert told is not None and float(told[1]) == pytest.approx(20 * a_token, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "70000"], "--port 70000: it must be from 0 to 65535"),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid"),
        (["--host", "192.0.2.1"], "--host 192.0.2.1 --port 0"),
        (["--max-queue", "-1"], "--max-queue -1"),
        (["--speed", "0"], "--speed 0"),
        (["--kv-blocks", "0"], "--kv-blocks 0"),
        (["--context-length", "1"], "--context-length 1: it must be a whole number from 2"),
        (["--threads", "1"], "--threads: only with --clock real"),
        (["--compute", "bf16"], "--compute: only with --clock real"),
        (["--load", "random"], "--load: only with --clock real"),
        (["--speculate", "ngram:2"], "--speculate: only with --clock real"),
        (["--kv-memory", "much"], "--kv-memory much"),
        (["--kv-memory", "1GiB", "--kv-blocks", "9"], "--kv-blocks and --kv-memory"),
        (["--policy", "decode-fist"], "did you mean decode-first"),
        (["--metrics-prefix", "a b"], "--metrics-prefix a b"),
        (["--api-key", ""], "--api-key"),
        (["--gpu", "h1000"], "unknown accelerator"),
        (["--tp", "3"], ""),
    ],
)
def test_wrong_options_are_one_line(run, arguments: list[str], said: str) -> None:
    status, out, err = run("serve", *STANDIN, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("twophase: ") and err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize(
    "option", ["gpu", "hardware", "tp", "pp", "ep", "dp", "speed", "tokenizer", "calibration"]
)
def test_the_real_clock_knows_no_accelerator(run, option: str) -> None:
    status, out, err = run("serve", f"--{option}", "1")
    assert (status, out, err) == (2, "", f"twophase: --{option}: only with --clock roofline\n")


def test_a_wrong_policy_is_told_before_the_model_is_looked_for(run) -> None:
    status, _, err = run("serve", "no-such-model", "--policy", "statik")
    assert status == 2 and "did you mean static" in err


def test_the_help_names_every_policy(run) -> None:
    _, out, _ = run("serve", "--help")
    assert all(name in " ".join(out.split()) for name in POLICIES)


def test_a_port_in_use_is_one_line(run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, _, err = run("serve", *STANDIN, "--port", str(port))
    assert (status, err) == (2, f"twophase: --host 127.0.0.1 --port {port}: Address already in use\n")
