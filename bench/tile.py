"""What the register tile reaches of the multiply-add roof, all that it reads in cache.

    python bench/tile.py [--rounds N]

One thread; each figure is a median over rounds, each divided by the roof measured right before it. No
blocking around the tile can better it.
"""

import argparse
import time
from statistics import median
from typing import Any

import numpy as np

from twophase.hardware.probe import cpu_name
from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES
from twophase.kernels.packing import aligned
from twophase.kernels.pairing import operands_of
from twophase.kernels.panel_tiles import packed_tile
from twophase.kernels.roofs import multiply_all, register_flops
from twophase.kernels.tile import PANELS, activation_dtype

K = 256  # of a panel that is unpacked, as linear.py has it
TILES = (1, 12, 44)  # of x: in the first-level cache; in the second
MULTIPLICATIONS = 4000  # of a tile, in a round
ROOF_ROUNDS = 4_000_000


@kernel
def multiply_tiles(
    w: Any, x: Any, nothing: Any, sums: Any, tiles: int, rows: int, factors: int, times: int
) -> None:
    """sums [tiles][rows][16·PANELS] += tiles of x · a panel, or two side by side; `times` over."""
    for number in range(times * tiles):
        i = number % tiles
        x_at, y_at = i * (x.size // tiles), i * rows * LANES * PANELS
        if PANELS == 2:
            packed_tile(
                rows, factors, w, (0, factors), nothing, (0, 0), x, x_at, nothing, 0, 0, sums, y_at, w, 0, 0
            )
        else:
            packed_tile(rows, factors, w, (0,), nothing, (0,), x, x_at, nothing, 0, 0, sums, y_at, w, 0, 0)


def operand(size: int, dtype: np.dtype[Any]) -> Any:
    """Values about 1, on a cache line of their own."""
    made = aligned(size * dtype.itemsize, np.uint8).view(dtype)
    made[:] = 1 if dtype == np.float32 else 0x3F80
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    dtype = activation_dtype("bf16")
    kind = operands_of(np.dtype(np.uint16), dtype).unpacked
    rows, factors = kind.max_rows(PANELS), K // kind.k_a_factor
    found, nothing = np.zeros(1, np.float32), np.zeros(0, np.float32)
    w = operand(PANELS * LANES * K, dtype)
    roof_flops = register_flops(w, operand(1, dtype), ROOF_ROUNDS)
    multiply_all(w, w, ROOF_ROUNDS, found, 1)
    print(f"{cpu_name()}: a tile of {rows} x {PANELS * LANES} outputs, {K} deep")
    for tiles in TILES:
        x, sums = (
            operand(tiles * rows * K, dtype),
            operand(tiles * rows * LANES * PANELS, np.dtype(np.float32)),
        )
        times = MULTIPLICATIONS // tiles
        flops = 2 * tiles * times * rows * LANES * PANELS * K
        shares = []
        for _ in range(rounds):
            began = time.perf_counter()
            multiply_all(w, w, ROOF_ROUNDS, found, 1)
            roof = roof_flops / (time.perf_counter() - began)
            multiply_tiles(w, x, nothing, sums, tiles, rows, factors, 1)  # compiled, and in cache
            began = time.perf_counter()
            multiply_tiles(w, x, nothing, sums, tiles, rows, factors, times)
            shares.append(flops / (time.perf_counter() - began) / roof)
        low, high = np.percentile(shares, [10, 90])
        print(f"{tiles:3} tiles of x: {median(shares):.2f} of the roof ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
