"""What PassTimes say of one pass: plain loops over its spans that Numba can compile."""

import numpy as np
from numpy.typing import NDArray

from twophase.cost.pass_times import (
    DECODE_PASS_S,
    DECODE_SPAN_S,
    DECODE_TOKEN_S,
    FEW_ROWS,
    MIXED_TOKEN_S,
    PAIR_FLOPS,
    PROMPT_FULL_ROWS,
    PROMPT_PAIR_S,
    PROMPT_PASS_S,
    PROMPT_SPAN_S,
    PROMPT_STEP,
    PROMPT_TOKEN_S,
    TOKEN_BYTES,
    WINDOW,
    Floats,
    PassTimes,
)

Ints = NDArray[np.int64]
NO_ROWS = 1e-6  # where any number fills the machine


def like_decode(new: int, context: int) -> bool:
    """The span's attention is that of few rows behind a context."""
    return new <= FEW_ROWS and context > 0


def at_row(table: Floats, rows: int) -> float:
    """The entry of so many rows; past the end, as the table's last step goes on."""
    last = len(table) - 1
    if rows <= last:
        return float(table[rows])
    return float(table[last] + (rows - last) * (table[last] - table[last - 1]))


def seen_pairs(new: int, context: int, window: int) -> int:
    """(query, key) pairs of a span: a row sees itself and all before it, `window` tokens at most."""
    growing = max(0, min(new, window - context))  # rows that see all before them
    return growing * context + growing * (growing + 1) // 2 + (new - growing) * window


def windowed(new: Ints, context: Ints, window: int) -> tuple[int, int, int, int, int]:
    """(pairs, tokens read, tokens written, prompts' pairs, tokens that they read) with a sliding window."""
    pairs, read, written, prompt_pairs, prompt_read = 0, 0, 0, 0, 0
    for i in range(len(new)):
        seen, kept = seen_pairs(new[i], context[i], window), min(context[i], window - 1)
        pairs += seen
        read += kept
        written += min(new[i], window - 1)  # who comes next sees no more
        if not like_decode(new[i], context[i]):
            prompt_pairs += seen
            prompt_read += kept
    return pairs, read, written, prompt_pairs, prompt_read


def pair_factor(full: Floats, step: Floats, rows: Floats | float) -> Floats:
    """How much longer pairs of a pass with so many rows of prompts take than where the machine is full.

    Blocks of rows run in waves, and none is shorter than one block: a part of the machine waits for the last.
    full, step: of PassTimes.mixers. Scalars or arrays.
    """
    waves = np.maximum(rows, 1.0) / np.maximum(full, NO_ROWS)
    return np.maximum(1.0, waves + step * (np.ceil(waves) - waves)) / waves


def pass_cost(times: PassTimes, new: Ints, context: Ints, logits: int) -> tuple[float, float, float]:
    """(seconds, FLOPs, bytes) of the pass; new, context: of each span; logits: rows that want them."""
    rows, prompts, pairs, read, prompt_rows, prompt_pairs, prompt_read = 0, 0, 0, 0, 0, 0, 0
    for i in range(len(new)):
        seen = new[i] * context[i] + new[i] * (new[i] + 1) // 2
        rows += new[i]
        pairs += seen
        read += context[i]
        if not like_decode(new[i], context[i]):
            prompts += 1
            prompt_rows += new[i]
            prompt_pairs += seen
            prompt_read += context[i]
    decodes = len(new) - prompts
    seconds = at_row(times.rows_s if prompts > 0 else times.decode_rows_s, rows)
    seconds += at_row(times.logits_s, logits)
    flops = at_row(times.rows_flops, rows) + at_row(times.logits_flops, logits)
    bytes_ = at_row(times.rows_bytes, rows) + at_row(times.logits_bytes, logits)
    for kind in range(len(times.mixers)):
        own = times.mixers[kind]
        sums = (pairs, read, rows, prompt_pairs, prompt_read)
        if own[WINDOW] > 0:
            sums = windowed(new, context, int(own[WINDOW]))
        if prompts > 0:
            seconds += own[PROMPT_PASS_S] + prompts * own[PROMPT_SPAN_S]
            pair_s = own[PROMPT_PAIR_S] * pair_factor(own[PROMPT_FULL_ROWS], own[PROMPT_STEP], prompt_rows)
            seconds += sums[3] * pair_s + sums[4] * own[PROMPT_TOKEN_S]
        if decodes > 0:
            seconds += own[DECODE_PASS_S] + decodes * own[DECODE_SPAN_S]
            seconds += (sums[1] - sums[4]) * own[DECODE_TOKEN_S]
        if prompts > 0:
            seconds += (sums[1] - sums[4]) * own[MIXED_TOKEN_S]
        flops += sums[0] * own[PAIR_FLOPS]
        bytes_ += (sums[1] + sums[2]) * own[TOKEN_BYTES]
    return seconds, flops, bytes_


def decode_growth(times: PassTimes, context: Ints) -> tuple[float, float, float, int]:
    """By how much (seconds, FLOPs, bytes) each decode pass exceeds the one before it while the same sequences
    decode, and for how many passes, this one included, that stays so: until a window is full."""
    seconds, flops, bytes_, passes = 0.0, 0.0, 0.0, 1 << 60
    for kind in range(len(times.mixers)):
        own = times.mixers[kind]
        window, growing = int(own[WINDOW]), len(context)
        if window > 0:
            growing = 0
            for i in range(len(context)):
                if context[i] < window - 1:
                    growing += 1
                    passes = min(passes, window - context[i])
        seconds += growing * own[DECODE_TOKEN_S]
        flops += growing * own[PAIR_FLOPS]
        bytes_ += growing * own[TOKEN_BYTES]
    return seconds, flops, bytes_, passes


def floor_seconds(times: PassTimes, flops: float, bytes_: float) -> float:
    """No pass with so many FLOPs and bytes is faster."""
    return float(max(flops / times.roofs[0], bytes_ / times.roofs[1]))
