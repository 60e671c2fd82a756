"""Room for the block keys of all requests: one flat array, so that a long queue of prompts costs little."""

from collections.abc import Sequence

import numpy as np

from twophase.scheduler.state import KEY_COUNT, KEY_ROOM, KEY_START, State, zeros


def with_keys(state: State, slot: int, keys: Sequence[int]) -> State:
    """The same books with `keys` behind those that the slot has. OverflowError beyond 64 signed bits."""
    count = int(state.slots[slot, KEY_COUNT])
    wanted = count + len(keys)
    if wanted > state.slots[slot, KEY_ROOM]:
        room = wanted if count == 0 else 2 * wanted  # whoever gets more once will again
        state = with_room(state, room)
        start, old = end_of(state), int(state.slots[slot, KEY_START])
        state.arena[start : start + count] = state.arena[old : old + count]
        state.slots[slot, KEY_START], state.slots[slot, KEY_ROOM] = start, room
    start = int(state.slots[slot, KEY_START])
    state.arena[start + count : start + wanted] = np.array(keys, np.int64)
    state.slots[slot, KEY_COUNT] = wanted
    return state


def end_of(state: State) -> int:
    return int(np.max(state.slots[:, KEY_START] + state.slots[:, KEY_ROOM]))


def with_room(state: State, room: int) -> State:
    """The same books with `room` free places at the arena's end: gaps are closed, and it grows."""
    if end_of(state) + room <= len(state.arena):
        return state
    size = len(state.arena)
    while size < 2 * (int(state.slots[:, KEY_ROOM].sum()) + room):
        size *= 2
    arena, at = zeros(size), 0
    for slot in np.flatnonzero(state.slots[:, KEY_ROOM]):
        request = state.slots[slot]
        start, count = request[KEY_START], request[KEY_COUNT]
        arena[at : at + count] = state.arena[start : start + count]
        request[KEY_START] = at
        at += int(request[KEY_ROOM])
    return state._replace(arena=arena)
