"""The loops over several replicas, compiled by Numba where it is there, those over one first."""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from twophase.compile_cache import kept_in, make_writable
from twophase.cost import pass_times
from twophase.scheduler.compiling import can_compile
from twophase.simulate import arena, books, cluster, cluster_books, compiling, events, router

LINKED = (arena, events, router, cluster)  # each calls those before it
ENTRIES = {"serve_together"}
# Whoever calls `advance` carries all its code, and optimizes it again: one caller is enough.
ADVANCING = {"advance_at", "advance_all", "begin_all", "end_passes", "serve_cluster", "serve_linked"}
# With Numba's counts of references: `replica_at` makes views of arrays, and gives them back.
OPTIONS = {"nogil": True, "boundscheck": False, "error_model": "numpy"}


def compiled(name: str) -> Callable[..., Any]:
    if name not in ENTRIES:
        return compiling.compiled(name)
    if not can_compile():
        found: Callable[..., Any] = vars(cluster)[name]
        return found
    return linked()[name]


@cache
def linked() -> dict[str, Callable[..., Any]]:
    import numba

    jit: Any = numba.njit
    folder = compiling.folder_of([books, cluster_books, pass_times, *compiling.LINKED, *LINKED])
    try:
        make_writable(folder)
        cached = True
    except OSError:
        cached = False
    done: dict[FunctionType, Any] = dict(compiling.linked())
    with kept_in(folder):
        for module in LINKED:
            for function in compiling.functions_of(module):
                names = {
                    name: done.get(value, value) if isinstance(value, FunctionType) else value
                    for name, value in function.__globals__.items()
                }
                bound = FunctionType(function.__code__, names)
                if function.__name__ in ENTRIES:
                    done[function] = jit(cache=cached, **OPTIONS)(bound)
                else:
                    inline = "always" if function.__name__ in ADVANCING else "never"
                    inner = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "inline": inline}
                    done[function] = jit(**inner, **OPTIONS)(bound)
    return {function.__name__: done[function] for function in done if function.__name__ in ENTRIES}
