"""The KV blocks: who holds them, which are free, and which are found again by what they contain.

    free     a stack of those without a key, taken first, the last that came first
             a line of those with a key, the first that came first; who left it leaves a gap
    buckets  open addressing: a block sits, beside its key, at the first empty place from the key's own on

A block that nobody holds keeps its key, and is found by it, until it is taken for something else.
Plain loops over arrays, so that Numba can compile them as they stand.
"""

import numpy as np

from twophase.scheduler.state import (
    EMPTY,
    HELD_BLOCK,
    IN_LINE,
    ITS_KEY,
    KEY,
    KEYED,
    LINE,
    LINE_FROM,
    LINE_TO,
    N_FREE,
    N_SPARE,
    OWNERS,
    PASS,
    SPARE,
    Ints,
    State,
)


def close_gaps(state: State) -> None:
    """Of as many places as there are blocks twice: it costs little for each block that came since."""
    line, to = state.free[LINE], 0
    for at in range(state.counts[LINE_FROM], state.counts[LINE_TO]):
        block = line[at]
        if state.blocks[block, IN_LINE] == at:
            line[to] = block
            state.blocks[block, IN_LINE] = to
            to += 1
    state.counts[LINE_FROM], state.counts[LINE_TO] = 0, to


def set_free(state: State, block: int) -> None:
    """Nobody holds it any more."""
    counts = state.counts
    if state.blocks[block, KEYED] == 0:
        state.free[SPARE, counts[N_SPARE]] = block
        counts[N_SPARE] += 1
    else:
        if counts[LINE_TO] == state.free.shape[1]:
            close_gaps(state)
        state.free[LINE, counts[LINE_TO]] = block
        state.blocks[block, IN_LINE] = counts[LINE_TO]
        counts[LINE_TO] += 1
    counts[N_FREE] += 1


def leave_line(state: State, block: int) -> None:
    state.blocks[block, IN_LINE] = EMPTY
    state.counts[N_FREE] -= 1


def bucket_of(state: State, key: int) -> int:
    """A key's own place. Four keys in a row lie beside each other in the cache; such runs are spread by the
    golden ratio (Knuth, TAOCP 3, 6.4), of which no product has more than 63 bits."""
    run = ((key >> 2) ^ (key >> 33)) & 0x7FFFFFFF
    return (((run * 2654435761) >> 14 << 2) | (key & 3)) & (len(state.buckets) - 1)


def place_of(state: State, key: int) -> int:
    """The bucket where the key stands, or the empty one where it would."""
    at, last = bucket_of(state, key), len(state.buckets) - 1
    while state.buckets[at, HELD_BLOCK] != EMPTY and state.buckets[at, ITS_KEY] != key:
        at = (at + 1) & last
    return at


def find(state: State, key: int) -> int:
    """The block with this key, or EMPTY."""
    return int(state.buckets[place_of(state, key), HELD_BLOCK])


def strike_out(state: State, block: int) -> None:
    """The block is no longer found by its key."""
    last = len(state.buckets) - 1
    gap = bucket_of(state, state.blocks[block, KEY])
    while state.buckets[gap, HELD_BLOCK] != block:
        gap = (gap + 1) & last
    at = gap
    while True:  # move up those whose own place lies at the gap or before it
        at = (at + 1) & last
        other = state.buckets[at, HELD_BLOCK]
        if other == EMPTY:
            break
        key = state.buckets[at, ITS_KEY]
        if ((at - bucket_of(state, key)) & last) >= ((at - gap) & last):
            state.buckets[gap, HELD_BLOCK], state.buckets[gap, ITS_KEY] = other, key
            gap = at
    state.buckets[gap, HELD_BLOCK] = EMPTY
    state.blocks[block, KEYED] = 0


def forget_key(state: State, block: int) -> None:
    """The block is no longer found; where it is free, it is the next to be taken."""
    strike_out(state, block)
    if state.blocks[block, OWNERS] == 0:
        leave_line(state, block)
        set_free(state, block)


def give_key(state: State, block: int, key: int) -> None:
    """A held block is found by `key` from now on. Of two with equal content one is: the one in use."""
    at = place_of(state, key)
    older = state.buckets[at, HELD_BLOCK]
    if older != EMPTY:
        if state.blocks[older, OWNERS] > 0:
            return
        state.blocks[older, KEYED] = 0  # free, and the next to be taken
        leave_line(state, older)
        set_free(state, older)
    state.buckets[at, HELD_BLOCK], state.buckets[at, ITS_KEY] = block, key
    state.blocks[block, KEY], state.blocks[block, KEYED] = key, state.counts[PASS]


def oldest_in_line(state: State) -> int:
    """The free block with a key that was unused for longest; it has no key any more."""
    counts = state.counts
    block = state.free[LINE, counts[LINE_FROM]]
    while state.blocks[block, IN_LINE] != counts[LINE_FROM]:
        counts[LINE_FROM] += 1
        block = state.free[LINE, counts[LINE_FROM]]
    counts[LINE_FROM] += 1
    leave_line(state, block)
    strike_out(state, block)
    return int(block)


def take(state: State, row: Ints, first: int, count: int) -> None:
    """So many free blocks, those that were unused for longest, for a new content, into a row of the table."""
    counts = state.counts
    spare = counts[N_SPARE]
    at_once = min(count, spare)
    for i in range(at_once):
        block = state.free[SPARE, spare - 1 - i]
        state.blocks[block, OWNERS] = 1
        row[first + i] = block
    counts[N_SPARE] = spare - at_once
    counts[N_FREE] -= at_once
    for i in range(at_once, count):
        block = oldest_in_line(state)
        state.blocks[block, OWNERS] = 1
        row[first + i] = block


def hold(state: State, block: int) -> None:
    """One more sequence reads the block, which was found by its key, as it is."""
    if state.blocks[block, OWNERS] == 0:
        leave_line(state, block)
    state.blocks[block, OWNERS] += 1


def drop(state: State, row: Ints, count: int) -> None:
    """One sequence less holds the first blocks of this row, the last of them first: prefixes outlive their
    ends. A free block without a key is taken next, one with a key after all others."""
    for i in range(count - 1, -1, -1):
        block = row[i]
        owners = state.blocks[block, OWNERS] - 1
        state.blocks[block, OWNERS] = owners
        if owners == 0:
            set_free(state, block)


def forget_keys_of(state: State, number: int) -> None:
    """Forget the keys that pass `number` gave: its blocks were never filled."""
    for block in np.flatnonzero(state.blocks[:, KEYED] == number):
        forget_key(state, int(block))
