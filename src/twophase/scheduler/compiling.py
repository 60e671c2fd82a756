"""The same moves and policies compiled by Numba, where it is installed; else as they stand."""

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from twophase.compile_cache import cache_folder, kept_in, make_writable
from twophase.scheduler import moves, policy, pool, queue, state
from twophase.scheduler.policy import Policy
from twophase.scheduler.request import Limits
from twophase.scheduler.state import KNOWN, MAX_OUTPUT, Ints, State, new_state

# They allocate nothing: without Numba's counts of references, a view of a row costs nothing either.
OPTIONS = {"nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False}
ENTRY = {**OPTIONS, "cache": True}
# A call would pass all arrays of the books through memory.
INNER = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
FEW_SEQUENCES = 8  # decisions as they stand take them 0.4 ms a pass


class Moves(NamedTuple):
    """What the scheduler calls in every pass. Policies call the others; what is rare stays as it is."""

    fill_pass: Callable[[State], int] = moves.fill_pass
    advance: Callable[[State, Ints, Ints, Ints, Ints], None] = moves.advance
    dismiss: Callable[[State, Ints], None] = moves.dismiss


def moves_for(chosen: Policy, limits: Limits) -> tuple[Moves, Policy]:
    """The moves and the policy, compiled where they can be; a policy that isn't ours stays as it is.

    Compiling takes seconds: where few sequences run, it would save less than it costs.
    """
    if limits.max_sequences <= FEW_SEQUENCES or not can_compile():
        return Moves(), chosen
    functions = compiled()
    ours = any(chosen is each for each in policy.POLICIES.values())
    in_use = functions[chosen.__name__] if ours else chosen
    linked = Moves(*(functions[name] for name in Moves._fields))
    rehearse(linked, in_use if ours else functions[policy.decode_first.__name__])
    return linked, in_use


def can_compile() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in {"", "0"} and bool(importlib.util.find_spec("numba"))


@cache
def compiled() -> dict[str, Any]:
    """All moves and policies by name. Each is compiled at its first call, or loaded from disk."""
    entries = {*Moves._fields, *(each.__name__ for each in policy.POLICIES.values())}
    done = link(
        all_functions(),
        cache_folder(Path(__file__).parent),
        lambda name: ENTRY if name in entries else INNER,
    )
    return {function.__name__: made for function, made in done.items()}


def link(
    functions: Iterable[FunctionType],
    folder: Path,
    options: Callable[[str], Mapping[str, Any]],
    done: Mapping[FunctionType, Any] | None = None,
) -> dict[FunctionType, Any]:
    """Compiled functions by those that they were made of: `done`, and these, each of which calls only those
    before it. `options`: Numba's, by a function's name; those with `cache` are kept in the folder."""
    import numba

    jit: Any = numba.njit
    try:
        make_writable(folder)
        cached = True
    except OSError:  # they are compiled again in each process
        cached = False
    made: dict[FunctionType, Any] = dict(done or {})
    with kept_in(folder):
        for function in functions:
            names = {
                name: made.get(value, value) if isinstance(value, FunctionType) else value
                for name, value in function.__globals__.items()
            }
            own = options(function.__name__)
            bound = FunctionType(function.__code__, names)
            made[function] = jit(**{**own, "cache": cached and own.get("cache", False)})(bound)
    return made


def all_functions() -> list[FunctionType]:
    """Each calls only those before it."""
    return functions_of(state, pool, queue, moves, policy)


def functions_of(*modules: ModuleType) -> list[FunctionType]:
    """Those that are defined there, in order."""
    return [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, FunctionType) and each.__module__ == module.__name__
    ]


@cache
def rehearse(linked: Moves, in_use: Policy) -> None:
    """One request from end to end, so that no real one waits for the compiler."""
    books = new_state(Limits(blocks=1, context_length=2, max_sequences=1), slots=1, ageing=0)
    books.slots[0, KNOWN] = books.slots[0, MAX_OUTPUT] = 1
    slots, zero = np.zeros(1, np.int64), np.zeros(1, np.int64)
    moves.enqueue(books, 0)
    moves.begin_pass(books)
    in_use(books)
    linked.fill_pass(books)
    linked.advance(books, slots, zero, zero, zero)
    linked.dismiss(books, slots)
