"""Streams that are closed or full: the answer may be lost, the exit status is not."""

import subprocess
import sys
from pathlib import Path

import pytest

TWOPHASE = f"{sys.executable} -c 'from twophase.cli import main; main()'"


def shell(line: str) -> tuple[int, str]:
    """The exit status and what is seen of both streams."""
    done = subprocess.run(
        ["sh", "-c", f"{TWOPHASE} {line}"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("streams", [">&-", ">&- 2>&-"])
@pytest.mark.parametrize(("verb", "status"), [("hardware", 0), ("hardware h100-sxn", 2)])
def test_closed_from_the_start(verb: str, status: int, streams: str) -> None:
    found, seen = shell(f"{verb} {streams}")
    assert found == status
    assert seen.count("\n") == (1 if status and "2>" not in streams else 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_full() -> None:
    assert shell("hardware >/dev/full") == (1, "twophase: output: No space left on device\n")
    assert shell("hardware h100-sxn 2>/dev/full") == (2, "")
