"""A pass as the kernels take it: flat arrays of rows, and where each lies in the KV cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.cost.pass_ import Pass
from twophase.kernels.attention import QUERY_ROWS
from twophase.kernels.cache import BLOCK_SIZE

Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Batch:
    ids: Ints  # [rows]
    positions: Ints  # [rows], each row's place in its sequence
    slots: Ints  # [rows], its block · 16 + place in the block
    tables: Ints  # [spans, blocks]
    logit_rows: Ints  # rows whose logits are wanted, span by span
    spans: tuple[tuple[int, int], ...]  # (new, context)

    def items(self, heads: int, kv_heads: int) -> Ints:
        """Attention's work: [n, 4] of (span, first row, tokens, position), longest first."""
        step = max(1, QUERY_ROWS * kv_heads // heads)
        starts = list(accumulate((new for new, _ in self.spans), initial=0))
        pieces = [
            (span, starts[span] + i, min(step, new - i), context + i)
            for span, (new, context) in enumerate(self.spans)
            for i in range(0, new, step)
        ]
        return np.array(sorted(pieces, key=lambda piece: -piece[2] * piece[3]), np.int64).reshape(-1, 4)


def make_batch(pass_: Pass, tokens: Mapping[int, Sequence[int]]) -> Batch:
    """`tokens`: all token ids of each sequence in the pass, known and drafted."""
    spans = pass_.spans
    new = np.array([span.new for span in spans], np.int64)
    ends = np.cumsum(new)
    span_ids = (tokens[span.sequence][span.context : span.context + span.new] for span in spans)
    ids = np.fromiter(chain.from_iterable(span_ids), np.int64, pass_.rows)
    positions = _ranges(np.array([span.context for span in spans], np.int64), new)
    tables = np.zeros((len(spans), max(len(span.blocks) for span in spans)), np.int64)
    for row, span in enumerate(spans):
        tables[row, : len(span.blocks)] = span.blocks
    owner = np.repeat(np.arange(len(spans)), new)
    slots = tables[owner, positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    wanted = np.array([span.logit_rows for span in spans], np.int64)
    return Batch(ids, positions, slots, tables, _ranges(ends - wanted, wanted), pass_.shape)


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """starts[i], starts[i] + 1 ... counts[i] of them, one range after another."""
    before = np.cumsum(counts) - counts
    ranges: Ints = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return ranges
