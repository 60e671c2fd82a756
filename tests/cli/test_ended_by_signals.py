"""Ctrl-C and SIGTERM alike: one line, 128 + the signal's number, whichever verb is at work."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")

# Stands in for what a verb does at length: it says that it is at work, and waits.
AT_WORK = """
import sys, time
import {module} as module
def at_work(*arguments, **options):
    sys.stdout.write("at work\\n")
    sys.stdout.flush()
    time.sleep(60)
module.{name} = at_work
from twophase.cli import main
main()
"""
LENGTHS = ("llama-3.1-8b", "--prompt-tokens", "100", "--output-tokens", "10", "--rate", "1")
VERBS = {
    "simulate": ("twophase.simulate.run", "simulate", LENGTHS),
    "advise": ("twophase.advise.advising", "advise", LENGTHS),
    "plan": ("twophase.plan.answer", "look", (*LENGTHS, "--slo", "ttft=1s", "--processes", "1")),
    "bench": ("twophase.meter.exchange", "run", ("http://127.0.0.1:9",)),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", VERBS)
def test_says_so(verb: str, number: signal.Signals, tmp_path: Path) -> None:
    module, name, arguments = VERBS[verb]
    program = [sys.executable, "-c", AT_WORK.format(module=module, name=name), verb, *arguments]
    running = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "at work\n"
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert said.strip() == f"twophase: {word}"
    assert running.returncode == 128 + number
