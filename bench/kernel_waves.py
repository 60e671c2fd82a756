"""Times of prompts' attention: affine, but for pairs that take longer where blocks leave the machine idle."""

import numpy as np
from kernel_entries import Floats
from kernel_fits import ROBUST

from twophase.calibration.least_squares import affine
from twophase.cost.pass_seconds import pair_factor

# rows by heads of queries that fill a machine once: 64 to 256 rows a block, one or two blocks on each of its
# 100 to 200 processors
FULL = np.geomspace(4e3, 1.5e5, 36)
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)


def waves(design: Floats, row_heads: Floats, measured: Floats) -> Floats:
    """The coefficients, pairs' last, then rows by heads that fill the machine, and the last wave's step."""
    best, least = np.zeros(0), np.inf
    for full in FULL:
        for step in STEPS:
            own = stretched(design, row_heads, full, step)
            found = affine(own, measured)
            away = np.abs(own @ found / measured - 1)
            loss = float(np.where(away < ROBUST, away**2, ROBUST * (2 * away - ROBUST)).sum())
            if loss < least:
                best, least = np.array([*found, full, step]), loss
    return best


def waves_s(design: Floats, row_heads: Floats, own: Floats) -> Floats:
    return np.asarray(stretched(design, row_heads, own[-2], own[-1]) @ own[:-2])


def stretched(design: Floats, row_heads: Floats, full: float, step: float) -> Floats:
    longer = pair_factor(np.float64(full), np.float64(step), row_heads)
    return np.column_stack([design[:, :-1], design[:, -1] * longer])
