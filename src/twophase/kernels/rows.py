"""What happens to rows between matrix products: embedding, norms, activations.

Rows are float32 and padded to whole lanes; the padding is zero and stays zero. `x`, what the next matrix
product takes, is float32 or bf16 by its array's type.
"""

from typing import Any

import numpy as np
from numba import prange

from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, add, div, exp, fma, get, load, mul, splat, store, sub, total


@kernel(parallel=True)
def embed(table: Any, ids: Any, scale: Any, h: Any, threads: int) -> None:
    """h[row] = scale · the table's row ids[row]; the table is packed in panels, as a head is."""
    width = h.shape[1]
    pair = 1 if table.itemsize == 4 else 2
    for thread in prange(threads):
        for row in range(ids.size * thread // threads, ids.size * (thread + 1) // threads):
            panel, lane = ids[row] // LANES, ids[row] % LANES
            for i in range(width):
                at = panel * LANES * width + (i // pair) * LANES * pair + lane * pair + i % pair
                h[row, i] = get(table, at) * scale


@kernel()
def norm_scale(h: Any, at: int, width: int, real_width: int, eps: Any) -> Any:
    """1 / sqrt(mean of squares + eps) of h[at : at + width]; real_width leaves padding out of the mean."""
    squares = splat(np.float32(0))
    for i in range(at, at + width, LANES):
        value = load(h, i)
        squares = fma(value, value, squares)
    return np.float32(1) / np.sqrt(total(squares) / np.float32(real_width) + eps)


@kernel(parallel=True)
def norm(h: Any, weight: Any, real_width: int, eps: Any, x: Any, threads: int) -> None:
    """x = RMS norm of h, row by row."""
    rows, width = h.shape
    for thread in prange(threads):
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            at = row * width
            scale = splat(norm_scale(h, at, width, real_width, eps))
            for i in range(0, width, LANES):
                store(x, at + i, mul(mul(load(h, at + i), scale), load(weight, i)))


@kernel(parallel=True)
def add_norm(
    h: Any, y: Any, post_weight: Any, weight: Any, real_width: int, eps: Any, x: Any, threads: int
) -> None:
    """h += y, or its norm where post_weight is given; then x = RMS norm of h."""
    rows, width = h.shape
    for thread in prange(threads):
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            at = row * width
            if post_weight.size:
                scale = splat(norm_scale(y, at, width, real_width, eps))
                for i in range(0, width, LANES):
                    normed = mul(mul(load(y, at + i), scale), load(post_weight, i))
                    store(h, at + i, add(load(h, at + i), normed))
            else:
                for i in range(0, width, LANES):
                    store(h, at + i, add(load(h, at + i), load(y, at + i)))
            scale = splat(norm_scale(h, at, width, real_width, eps))
            for i in range(0, width, LANES):
                store(x, at + i, mul(mul(load(h, at + i), scale), load(weight, i)))


@kernel(parallel=True)
def activate(y: Any, gelu: bool, x: Any, threads: int) -> None:
    """x = activation(gate) · up, where y holds gate and up side by side; SiLU, or GELU's tanh form."""
    rows, width = x.shape
    one, two = splat(np.float32(1)), splat(np.float32(2))
    cubic, slope = splat(np.float32(0.044715)), splat(np.float32(2 * 0.7978845608028654))
    for thread in prange(threads):
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            for i in range(0, width, LANES):
                gate, up = load(y, row * 2 * width + i), load(y, row * 2 * width + width + i)
                if gelu:  # g/2 · (1 + tanh u) = g · (1 - 1 / (1 + e^2u))
                    u = mul(slope, fma(mul(mul(gate, gate), gate), cubic, gate))
                    active = mul(gate, sub(one, div(one, add(one, exp(u)))))
                else:
                    active = div(gate, add(one, exp(mul(gate, sub(one, two)))))
                store(x, row * width + i, mul(active, up))
