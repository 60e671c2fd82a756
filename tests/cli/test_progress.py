"""The bar on stderr: it comes by itself, says what is compiled, and shows nothing where nobody looks."""

import io
import sys
import threading
import time

import pytest

from twophase.cli import progress
from twophase.simulate import rehearsal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture: pytest itself sets stderr anew between those and the test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def wait_for(text: str, where: Terminal) -> bool:
    until = time.monotonic() + 20
    while text not in where.getvalue() and time.monotonic() < until:
        time.sleep(0.01)
    return text in where.getvalue()


def test_the_bar_comes_while_nothing_more_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE_S", 0.01)
    with progress.progress_bar() as report:
        report("a long wait", 0.0)
        assert wait_for("a long wait", terminal)
    assert not [each for each in threading.enumerate() if isinstance(each, threading.Timer)]


def test_what_is_quick_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE_S", 60.0)
    with progress.progress_bar() as report:
        report("quick", 0.5)
    assert "quick" not in terminal.getvalue()


def test_compiling_is_said() -> None:
    numba = pytest.importorskip("numba")
    if numba.config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    said: list[str] = []
    with progress.simulator_shown(lambda doing, share: said.append(doing)) as compiled:
        assert not compiled
        assert numba.njit(lambda one: one + 1)(1) == 2
    assert compiled
    assert any("compiling the simulator" in each for each in said)


def test_what_was_compiled_is_known(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not rehearsal.kept()
    for folder, name in ((rehearsal.compiling, "serve"), (rehearsal.linking, "serve_together")):
        assert not rehearsal.kept()
        (folder.folder() / "simulate_0").mkdir(parents=True)
        (folder.folder() / "simulate_0" / f"single.{name}-21.py311.nbi").touch()
    assert rehearsal.kept()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert rehearsal.kept()
