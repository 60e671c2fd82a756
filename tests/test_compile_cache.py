"""Folders of compiled code: one for a version of the sources, and none for ever."""

import os
import time
from pathlib import Path

import pytest

from twophase.compile_cache import UNUSED_S, cache_folder, make_writable


def test_a_change_of_any_source_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    room = tmp_path / "room"
    room.mkdir()
    (room / "a.py").write_text("1")
    before = cache_folder(room)
    assert before.parent == tmp_path / "cache" / "twophase" and before.name.startswith("room-")
    (room / "b.py").write_text("2")
    assert cache_folder(room) != before


def test_what_was_long_unused_goes_when_a_new_one_comes(tmp_path: Path) -> None:
    old, recent, other = tmp_path / "room-1", tmp_path / "room-2", tmp_path / "hall-1"
    for folder in (old, recent, other):
        make_writable(folder)
        (folder / "f.nbc").touch()
    past = time.time() - UNUSED_S - 60
    for folder in (old, other):
        os.utime(folder, (past, past))
    make_writable(tmp_path / "room-3")
    assert not old.exists()
    assert recent.exists() and other.exists()


def test_a_folder_in_use_stays_young(tmp_path: Path) -> None:
    make_writable(tmp_path / "room-1")
    os.utime(tmp_path / "room-1", (0, 0))
    make_writable(tmp_path / "room-1")
    make_writable(tmp_path / "room-2")
    assert (tmp_path / "room-1").exists()
