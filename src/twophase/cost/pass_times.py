"""Seconds, FLOPs and bytes of a deployment's passes as a few sums over their spans, for compiled loops.

Where membership does not change, a decode pass is affine in its contexts: that lets a simulator advance runs
of passes in closed form. Whoever knows operators (arithmetic alone, kernel curves, a calibration of measured
passes) writes them into these arrays once; whoever loops over passes only reads them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# columns of PassTimes.mixers: one row for each kind of attention (a window, or none), over all its layers
(
    WINDOW,  # tokens that a row can see, itself included; 0: all of them
    PROMPT_PASS_S,  # once in a pass that has spans of many rows
    PROMPT_SPAN_S,  # for each such span
    PROMPT_PAIR_S,  # for each (query, key) pair, where there are rows enough to fill the machine
    PROMPT_TOKEN_S,  # for each token of context that such a span reads
    DECODE_PASS_S,  # once in a pass that has spans of few rows
    DECODE_SPAN_S,  # for each such span: a decode, or one that verifies drafts
    DECODE_TOKEN_S,  # for each token of its context
    PAIR_FLOPS,
    TOKEN_BYTES,  # of KV, read or written
    MIXED_TOKEN_S,  # more, for each token of a decode's context in a pass that has spans of many rows, too
    PROMPT_FULL_ROWS,  # of all such spans of a pass, whose blocks fill the machine once; 0: any number does
    PROMPT_STEP,  # how much of a full wave's time the last one takes beyond its share of the blocks, 0 to 1
) = range(13)
COLUMNS = PROMPT_STEP + 1

FEW_ROWS = 16  # a span of at most so many rows behind a context is read like a decode


class PassTimes(NamedTuple):
    """Of one replica: all its devices together count for FLOPs and bytes, the slowest for seconds."""

    rows_s: Floats  # [rows + 1]: what depends on the number of rows alone, where a span has many rows
    decode_rows_s: Floats  # [rows + 1]: the same where none has
    logits_s: Floats  # [sequences + 1]: head and sampler by rows that want logits; more go on alike
    mixers: Floats  # [kinds, columns]
    rows_flops: Floats  # [rows + 1]
    rows_bytes: Floats  # [rows + 1]: weights, with the distinct experts that so many rows touch
    logits_flops: Floats  # [sequences + 1]
    logits_bytes: Floats  # [sequences + 1]
    roofs: Floats  # FLOP/s and bytes/s of all devices at work on it: no pass is faster than its floor
