"""The simulator's loops, linked with the scheduler's functions and compiled by Numba; else as they stand."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from twophase.compile_cache import cache_folder
from twophase.cost import pass_seconds, pass_times
from twophase.scheduler import compiling as scheduler
from twophase.scheduler.compiling import functions_of
from twophase.simulate import books, deciding, drafts, one_pass, replica, run_ahead, single

LINKED = (pass_seconds, deciding, drafts, run_ahead, one_pass, replica, single)  # each calls those before it
CALLED = {"decide", "start_pass", "end_pass"}  # once a pass: inlined, they only compile longer
ENTRIES = {"advance", "submit", "let_go", "cached_blocks", "serve"}  # what Python calls


def compiled(name: str) -> Callable[..., Any]:
    """The function of LINKED with this name."""
    own = next(each for each in functions_of(*LINKED) if each.__name__ == name)
    if not scheduler.can_compile():
        return own
    found: Callable[..., Any] = linked()[own]
    return found


@cache
def linked() -> dict[FunctionType, Any]:
    """Compiled functions by those that they were made of: the scheduler's, those of pass times and ours."""
    theirs = scheduler.compiled()
    return scheduler.link(
        functions_of(*LINKED),
        folder(),
        options,
        {each: theirs[each.__name__] for each in scheduler.all_functions()},
    )


def folder() -> Path:
    return folder_of([books, pass_times, *LINKED])


def options(name: str) -> Mapping[str, Any]:
    if name in ENTRIES:
        return scheduler.ENTRY
    return {**scheduler.INNER, "forceinline": name not in CALLED}


def folder_of(modules: Sequence[ModuleType]) -> Path:
    """Where their compiled code is kept, keyed by their sources and the scheduler's."""
    room = cache_folder(Path(scheduler.__file__).parent)
    digest = hashlib.sha256(room.name.encode())
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return room.with_name(f"simulate-{digest.hexdigest()[:16]}")
