"""Softmax over a group of keys, and how groups merge into a row's result."""

from typing import Any

import numpy as np

from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import (
    LANES,
    add,
    div,
    exp,
    fma,
    keep,
    largest,
    load,
    maximum,
    mul,
    splat,
    store,
    sub,
    total,
)

NEVER = np.float32(-1e30)
MAX, SUM = 0, 1  # columns of a row's state, running or of one group


@kernel
def cap(scores: Any, begin: int, end: int, softcap: Any) -> None:
    """scores = softcap · tanh(scores / softcap), with tanh u = 1 - 2 / (1 + e^2u)."""
    one, two, slope = splat(np.float32(1)), splat(np.float32(2)), splat(np.float32(2) / softcap)
    for i in range(begin, end, LANES):
        bent = sub(one, div(two, add(one, exp(mul(load(scores, i), slope)))))
        store(scores, i, mul(bent, splat(softcap)))


@kernel
def weigh(
    scores: Any, at: int, first: int, last: int, begin: int, end: int, softcap: Any, k_scales: Any,
    v_scales: Any, scale_at: int, weights: Any, w_at: int, state: Any, row: int,
) -> None:  # fmt: skip
    """weights = exp(scores - their max) for tokens first..last of a group, 0 for the others in begin..end.

    int8: the scores first take their keys' scales, and the weights at last their values'. The weights may lie
    where the scores did.
    """
    never, nothing = splat(NEVER), splat(np.float32(0))
    if k_scales.size:
        for i in range(begin, end, LANES):
            store(scores, at + i, mul(load(scores, at + i), load(k_scales, scale_at + i)))
    if softcap != 0:
        cap(scores, at + begin, at + end, softcap)
    best = never
    for i in range(begin, end, LANES):
        score = load(scores, at + i)
        if first > i or last < i + LANES - 1:
            score = keep(score, first - i, last - i, never)
        best = maximum(best, score)
    top, sums = largest(best), nothing
    for i in range(begin, end, LANES):
        raised = exp(sub(load(scores, at + i), splat(top)))
        if first > i or last < i + LANES - 1:
            raised = keep(raised, first - i, last - i, nothing)
        sums = add(sums, raised)
        if v_scales.size:
            raised = mul(raised, load(v_scales, scale_at + i))
        store(weights, w_at + i, raised)
    state[row, MAX], state[row, SUM] = top, total(sums)


@kernel
def merge_state(state: Any, row: int, group: Any, at: int) -> Any:
    """Merge a group's maximum and sum into a row's running ones: the factors of their weighted values."""
    best = max(state[row, MAX], group[at, MAX])
    old = largest(exp(splat(state[row, MAX] - best)))
    new = largest(exp(splat(group[at, MAX] - best)))
    state[row, MAX] = best
    state[row, SUM] = old * state[row, SUM] + new * group[at, SUM]
    return old, new


@kernel
def merge_values(out: Any, at: int, part: Any, part_at: int, width: int, old: Any, new: Any) -> None:
    for i in range(0, width, LANES):
        merged = fma(load(out, at + i), splat(old), mul(load(part, part_at + i), splat(new)))
        store(out, at + i, merged)


@kernel
def merge(state: Any, out: Any, row: int, group: Any, part: Any, at: int, width: int) -> None:
    """Merge row `at` of a group's part into a row's running result."""
    if group[at, SUM] != 0:  # it sees some of the group; NaN goes on to the logits
        old, new = merge_state(state, row, group, at)
        merge_values(out, row * width, part, at * width, width, old, new)
