"""Who waits: a binary heap of slots, the next to be served on top, in order of rank and then of arrival.

Plain loops over arrays, so that Numba can compile them as they stand.
"""

from twophase.scheduler.state import ARRIVAL, HEAP, N_WAITING, PLACE, RANK, State


def goes_first(state: State, slot: int, other: int) -> bool:
    if state.slots[slot, RANK] != state.slots[other, RANK]:
        return bool(state.slots[slot, RANK] < state.slots[other, RANK])
    return bool(state.slots[slot, ARRIVAL] < state.slots[other, ARRIVAL])


def put(state: State, slot: int, at: int) -> None:
    state.slots[at, HEAP] = slot
    state.slots[slot, PLACE] = at


def rise(state: State, slot: int, at: int) -> None:
    """Put `slot` at `at` or higher."""
    while at > 0 and goes_first(state, slot, state.slots[(at - 1) // 2, HEAP]):
        put(state, state.slots[(at - 1) // 2, HEAP], at)
        at = (at - 1) // 2
    put(state, slot, at)


def sink(state: State, slot: int, at: int) -> None:
    """Put `slot` at `at` or lower."""
    size = state.counts[N_WAITING]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and goes_first(state, state.slots[child + 1, HEAP], state.slots[child, HEAP]):
            child += 1
        if not goes_first(state, state.slots[child, HEAP], slot):
            break
        put(state, state.slots[child, HEAP], at)
        at = child
    put(state, slot, at)


def push(state: State, slot: int) -> None:
    state.counts[N_WAITING] += 1
    rise(state, slot, state.counts[N_WAITING] - 1)


def remove(state: State, slot: int) -> None:
    at = state.slots[slot, PLACE]
    state.counts[N_WAITING] -= 1
    last = state.slots[state.counts[N_WAITING], HEAP]
    if last != slot:
        rise(state, last, at)
        if state.slots[last, PLACE] == at:
            sink(state, last, at)
