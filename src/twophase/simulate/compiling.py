"""The simulator's loops, linked with the scheduler's functions and compiled by Numba; else as they stand."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from twophase.compile_cache import cache_folder, kept_in, make_writable
from twophase.cost import pass_seconds, pass_times
from twophase.scheduler import compiling as scheduler
from twophase.simulate import books, deciding, drafts, one_pass, replica, run_ahead, single

LINKED = (pass_seconds, deciding, drafts, run_ahead, one_pass, replica, single)  # each calls those before it
CALLED = {"decide", "start_pass", "end_pass"}  # once a pass: inlined, they only compile longer
ENTRIES = {"advance", "submit", "let_go", "cached_blocks", "serve"}  # what Python calls


def compiled(name: str) -> Callable[..., Any]:
    """The function of LINKED with this name."""
    own = next(each for module in LINKED for each in functions_of(module) if each.__name__ == name)
    if not scheduler.can_compile():
        return own
    found: Callable[..., Any] = linked()[own]
    return found


@cache
def linked() -> dict[FunctionType, Any]:
    """Compiled functions by those that they were made of: the scheduler's, those of pass times and ours."""
    theirs = scheduler.compiled()
    done = {each: theirs[each.__name__] for each in scheduler.all_functions()}
    return link(LINKED, ENTRIES, done)


def link(
    modules: Sequence[ModuleType], entries: set[str], done: dict[FunctionType, Any]
) -> dict[FunctionType, Any]:
    """`done` and the functions of `modules`, each of which calls only those before it. Only `entries` can be
    called from Python; they are kept on disk."""
    import numba

    jit: Any = numba.njit
    folder, cached = folder_of([books, pass_times, *modules]), True
    try:
        make_writable(folder)
    except OSError:
        cached = False
    done = dict(done)
    with kept_in(folder):
        for module in modules:
            for function in functions_of(module):
                names = {
                    name: done.get(value, value) if isinstance(value, FunctionType) else value
                    for name, value in function.__globals__.items()
                }
                bound = FunctionType(function.__code__, names)
                if function.__name__ in entries:
                    done[function] = jit(cache=cached, **scheduler.ENTRY)(bound)
                else:
                    inlined = function.__name__ not in CALLED
                    done[function] = jit(**{**scheduler.INNER, "forceinline": inlined})(bound)
    return done


def functions_of(module: ModuleType) -> list[FunctionType]:
    own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
    return [each for each in own if isinstance(each, FunctionType)]


def folder_of(modules: Sequence[ModuleType]) -> Path:
    """Where their compiled code is kept, keyed by their sources and the scheduler's."""
    room = cache_folder(Path(scheduler.__file__).parent)
    digest = hashlib.sha256(room.name.encode())
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return room.with_name(f"simulate-{digest.hexdigest()[:16]}")
