"""A mixture's routing: which experts a row goes through, rows sorted by expert, their results summed again.

A row's experts stand in the order of their probabilities and are summed in it, whoever else is in the batch.
"""

from math import exp as scalar_exp
from typing import Any

import numpy as np

from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, add, fma, load, mul, splat, store
from twophase.kernels.threads import SHARED_OUT, share_out


@kernel
def route_row(logits: Any, row: int, experts: int, renormalised: bool, chosen: Any, weights: Any) -> None:
    """The likeliest experts, of equal ones the first; probabilities are over all experts, or the chosen."""
    top_k = chosen.shape[1]
    for j in range(top_k):
        best = -1
        for expert in range(experts):
            if best >= 0 and not logits[row, expert] > logits[row, best]:
                continue
            taken = False
            for before in range(j):
                taken |= chosen[row, before] == expert
            if not taken:
                best = expert
        chosen[row, j] = best
    top = logits[row, chosen[row, 0]]
    whole = np.float32(0)
    for j in range(top_k):
        weights[row, j] = np.float32(scalar_exp(logits[row, chosen[row, j]] - top))
    if renormalised:
        for j in range(top_k):
            whole += weights[row, j]
    else:
        for expert in range(experts):
            whole += np.float32(scalar_exp(logits[row, expert] - top))
    for j in range(top_k):
        weights[row, j] /= whole


@kernel
def route_rows(
    first: int, last: int, logits: Any, experts: int, renormalised: bool, chosen: Any, weights: Any
) -> None:
    for row in range(first, last):
        route_row(logits, row, experts, renormalised, chosen, weights)


@kernel
def route(
    logits: Any, experts: int, renormalised: bool, chosen: Any, weights: Any, starts: Any, places: Any,
    threads: int,
) -> None:  # fmt: skip
    """Choose by softmax, and sort by expert.

    logits: [rows, at least experts]; chosen, weights, places: [rows, top_k], each choice's expert, its
    weight, and its row among all choices sorted by expert; starts: [experts + 1], each expert's first row.
    """
    rows = logits.shape[0]
    threads = threads if rows * experts >= SHARED_OUT // LANES else 1
    share_out(route_rows, rows, threads, (logits, experts, renormalised, chosen, weights))
    starts[:] = 0
    for row in range(rows):
        for j in range(chosen.shape[1]):
            places[row, j] = starts[chosen[row, j] + 1]
            starts[chosen[row, j] + 1] += 1
    for expert in range(experts):
        starts[expert + 1] += starts[expert]
    for row in range(rows):
        for j in range(chosen.shape[1]):
            places[row, j] += starts[chosen[row, j]]


@kernel
def spread_rows(first: int, last: int, x: Any, places: Any, out: Any) -> None:
    for row in range(first, last):
        for j in range(places.shape[1]):
            for i in range(x.shape[1]):
                out[places[row, j], i] = x[row, i]


@kernel
def spread(x: Any, places: Any, out: Any, threads: int) -> None:
    """out[places[row, j]] = x[row]."""
    share_out(spread_rows, len(x), threads if out.size >= SHARED_OUT else 1, (x, places, out))


@kernel
def gather_rows(
    first: int, last: int, y: Any, places: Any, weights: Any, shared: Any, gates: Any, gate: int, out: Any
) -> None:
    width = out.shape[1]
    for row in range(first, last):
        open_ = np.float32(1)
        if gate >= 0:
            open_ = np.float32(1 / (1 + scalar_exp(-gates[row, gate])))
        for i in range(0, width, LANES):
            value = splat(np.float32(0))
            for j in range(places.shape[1]):
                value = fma(load(y, places[row, j] * width + i), splat(weights[row, j]), value)
            if shared.size:
                value = add(value, mul(load(shared, row * width + i), splat(open_)))
            store(out, row * width + i, value)


@kernel
def gather(
    y: Any, places: Any, weights: Any, shared: Any, gates: Any, gate: int, out: Any, threads: int
) -> None:
    """out[row] = Σ_j weights[row, j] · y[places[row, j]] + sigmoid(gates[row, gate]) · shared[row].

    shared: empty where there is no shared expert; gate: -1 where it is not gated.
    """
    threads = threads if y.size >= SHARED_OUT else 1
    share_out(gather_rows, len(out), threads, (y, places, weights, shared, gates, gate, out))
