"""What the meter measures of a server is what the server's own clock says of the same requests."""

import json
import os
import re
import subprocess
import sys

import httpx
import pytest

TWOPHASE = [sys.executable, "-c", "from twophase.cli import main; main()"]
SLOW = ["llama-3.1-8b", "--clock", "roofline", "--gpu", "l40s", "--port", "0"]  # about 19 ms a token
PLAIN = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
REQUESTS, TOKENS = 12, 24


def sums(url: str, name: str) -> tuple[float, float]:
    """(sum, count) of one of the server's histograms."""
    page = httpx.get(f"{url}/metrics").text
    found = [re.search(rf"^twophase:{name}_{each}{{.*}} (\S+)$", page, re.M) for each in ("sum", "count")]
    first, second = (float(each[1]) if each else 0.0 for each in found)
    return first, second


@pytest.mark.slow
def test_a_clock_made_of_arithmetic(tmp_path: object) -> None:
    pipe = subprocess.PIPE
    server = subprocess.Popen([*TWOPHASE, "serve", *SLOW], stdout=pipe, stderr=pipe, text=True, env=PLAIN)
    try:
        assert server.stdout is not None
        lines = iter(server.stdout)
        url = next(
            found[1] for line in lines if (found := re.search(r"curl (http://127\.0\.0\.1:\d+)/v1", line))
        )
        bench = [
            *("bench", url, "--concurrency", "1", "--requests", str(REQUESTS), "--warmup", "1", "--json"),
            *("--prompt-tokens", "2000", "--output-tokens", str(TOKENS), "--out", f"{tmp_path}/run"),
        ]
        done = subprocess.run([*TWOPHASE, *bench], check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        measured = json.loads(done.stdout)
        ttft, gap = (sums(url, f"{name}_seconds") for name in ("time_to_first_token", "inter_token_latency"))
    finally:
        server.kill()
        server.communicate()
    assert measured["requests"]["ok"] == REQUESTS
    assert measured["tpot_s"]["mean"] == pytest.approx(gap[0] / gap[1], rel=0.05)
    # The probes' short requests count here, too, and make it less. Nobody sees a token before it is made.
    assert measured["ttft_s"]["mean"] > ttft[0] / ttft[1]
