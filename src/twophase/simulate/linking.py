"""The loops over several replicas, compiled by Numba where it is there, those over one first."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from twophase.cost import pass_times
from twophase.scheduler.compiling import can_compile, functions_of, link
from twophase.simulate import arena, books, cluster, cluster_books, compiling, events, in_step, router

LINKED = (arena, events, router, in_step, cluster)  # each calls those before it
ENTRIES = {"serve_together"}
# Whoever calls `advance`, or starts passes, carries all that and optimizes it again: one caller is enough.
ADVANCING = {"advance_group", "advance_all", "begin_all", "serve_cluster", "serve_linked", "start_alone"}
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
    done = link(functions_of(*LINKED), folder(), options, compiling.linked())
    return {name: done[vars(cluster)[name]] for name in ENTRIES}


def folder() -> Path:
    return compiling.folder_of([books, cluster_books, pass_times, *compiling.LINKED, *LINKED])


def options(name: str) -> Mapping[str, Any]:
    if name in ENTRIES:
        return {**OPTIONS, "cache": True}
    inline = "always" if name in ADVANCING else "never"
    return {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "inline": inline}
