"""The same moves and policies compiled by Numba, where it is installed; else as they stand."""

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from twophase.compile_cache import cache_folder, kept_in, make_writable
from twophase.scheduler import moves, policy, pool, queue
from twophase.scheduler.policy import Policy
from twophase.scheduler.request import Limits
from twophase.scheduler.state import KNOWN, MAX_OUTPUT, Ints, State, blocks_for, new_state

# They allocate nothing: without Numba's counts of references, a view of a row costs nothing either.
ENTRY = {"nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False}
# A call would pass all arrays of the books through memory.
INNER = {**ENTRY, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
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
    import numba

    folder = cache_folder(Path(__file__).parent)
    try:
        make_writable(folder)
        cached = True
    except OSError:  # they compile in seconds
        cached = False
    jit: Any = numba.njit
    entries = {*Moves._fields, *(each.__name__ for each in policy.POLICIES.values())}
    done: dict[str, Any] = {}
    with kept_in(folder):
        for function in all_functions():
            name = function.__name__
            linked = FunctionType(function.__code__, {**function.__globals__, **done})
            if name in entries:
                done[name] = jit(cache=cached, **ENTRY)(linked)
            else:
                done[name] = jit(**INNER)(linked)
    return done


def all_functions() -> list[FunctionType]:
    """Each calls only those before it."""
    found = [blocks_for]
    for module in (pool, queue, moves, policy):
        found += [
            each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__
        ]
    return [each for each in found if isinstance(each, FunctionType)]


@cache
def rehearse(linked: Moves, in_use: Policy) -> None:
    """One request from end to end, so that no real one waits for the compiler."""
    state = new_state(Limits(blocks=1, context_length=2, max_sequences=1), slots=1, ageing=0)
    state.slots[0, KNOWN] = state.slots[0, MAX_OUTPUT] = 1
    slots, zero = np.zeros(1, np.int64), np.zeros(1, np.int64)
    moves.enqueue(state, 0)
    moves.begin_pass(state)
    in_use(state)
    linked.fill_pass(state)
    linked.advance(state, slots, zero, zero, zero)
    linked.dismiss(state, slots)
