"""A pass as the kernels take it: flat arrays of rows, and where each lies in the KV cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        starts = np.cumsum([0, *(new for new, _ in self.spans)])
        pieces = [
            (span, starts[span] + i, min(step, new - i), context + i)
            for span, (new, context) in enumerate(self.spans)
            for i in range(0, new, step)
        ]
        return np.array(sorted(pieces, key=lambda piece: -piece[2] * piece[3]), np.int64).reshape(-1, 4)


def make_batch(pass_: Pass, tokens: Mapping[int, Sequence[int]]) -> Batch:
    """`tokens`: all known token ids of each sequence in the pass."""
    spans = pass_.spans
    ids = np.concatenate([tokens[s.sequence][s.context : s.context + s.new] for s in spans]).astype(np.int64)
    positions = np.concatenate([np.arange(s.context, s.context + s.new) for s in spans])
    tables = np.zeros((len(spans), max(len(s.blocks) for s in spans)), np.int64)
    for row, span in enumerate(spans):
        tables[row, : len(span.blocks)] = span.blocks
    owner = np.repeat(np.arange(len(spans)), [s.new for s in spans])
    slots = tables[owner, positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    ends = np.cumsum([s.new for s in spans])
    wanted = [np.arange(end - s.logit_rows, end) for s, end in zip(spans, ends.tolist(), strict=True)]
    return Batch(ids, positions, slots, tables, np.concatenate(wanted), pass_.shape)
