"""Where Numba keeps what it compiled: a folder of our own, keyed by the sources of a room."""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

UNUSED_S = 30 * 86400.0


def cache_folder(room: Path) -> Path:
    """The user's cache folder for a room, keyed by all its sources: Numba looks only at the file that a
    function stands in, not at those whose functions were inlined into it."""
    digest = hashlib.sha256()
    for source in sorted(room.glob("*.py")):
        digest.update(source.read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or (
        "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    )
    return Path(os.path.expanduser(base)) / "twophase" / f"{room.name}-{digest.hexdigest()[:16]}"


def make_writable(folder: Path) -> None:
    """Marks it as in use, and removes those of other versions that long were not. OSError where nothing can
    be kept there."""
    if not folder.exists():
        room, _, _ = folder.name.rpartition("-")
        for other in folder.parent.glob(f"{room}-*"):
            with suppress(FileNotFoundError):  # another process removes it, too
                if time.time() - other.stat().st_mtime > UNUSED_S:
                    shutil.rmtree(other, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    with tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Functions that are made within, with `cache=True`, are kept in this folder."""
    import numba.core.config

    config: Any = numba.core.config
    elsewhere, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = elsewhere


@contextmanager
def compiling_told(tell: Callable[[int], None]) -> Iterator[None]:
    """Within, tell(n) as the n-th function is compiled; what is loaded from a folder doesn't count."""
    from numba.core.event import Listener, install_listener

    numbers = count(1)

    class Compiled(Listener):
        def on_start(self, event: Any) -> None:
            tell(next(numbers))

        def on_end(self, event: Any) -> None:
            pass

    with install_listener("numba:compile", Compiled()):
        yield
