"""Work in other processes: it ends with the one that began it, and is the same on a Ray cluster."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from plan_questions import SMALL, nothing, question

from twophase.errors import InputError
from twophase.plan.ledger import Ledger
from twophase.plan.search import cheapest, look
from twophase.plan.space import Space
from twophase.plan.workers import ended_in_order, local, on_ray


def one_gpu() -> Space:
    return Space(
        gpus=("h100-sxm",),
        tp=(1,),
        pp=(1,),
        max_tokens=SMALL.max_tokens,
        max_sequences=SMALL.max_sequences,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_local_ray_gives_the_same() -> None:
    pytest.importorskip("ray")
    own = question(space=one_gpu())
    found = []
    for working in (on_ray(own, "local"), local(own, 1)):
        with working as work:
            looked = look(own, work, nothing)
            found.append((looked, cheapest(own, looked, Ledger(work), nothing)))
    assert found[0] == found[1]
    assert found[0][1] is not None


def test_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it weren't installed
    with pytest.raises(InputError, match=r"twophase\[ray\]"), on_ray(question(), "auto"):
        pass


ENDED = """
import os, signal
from plan_questions import question
from twophase.plan.search import look
from twophase.plan.workers import local

if __name__ == "__main__":
    own = question()
    with local(own, 2) as work:
        look(own, work, lambda doing, share: None)
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_sigterm_ends_the_processes_too(tmp_path: Path) -> None:
    """A worker that went on would keep stderr open, and this would wait; lost semaphores are told there."""
    script = tmp_path / "ended.py"
    here = Path(__file__).parent
    script.write_text(f"import sys\nsys.path.insert(0, {str(here)!r})\n{ENDED}")
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")


def test_whoever_listens_already_goes_on_to() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with ended_in_order():
            signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
