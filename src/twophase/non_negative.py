"""Least squares whose coefficients can't be negative, many at once.

A model is a sum of columns times coefficients. With two or three of them the exact non-negative answer is the
best of all subsets' free solutions that has no negative coefficient, so that a thousand resamples cost a few
matrix products.
"""

from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def non_negative(design: Floats, targets: Floats) -> Floats:
    """[resamples, coefficients] >= 0 for targets [resamples, points] by a design [points, coefficients].

    Of subsets that fit alike, the one whose columns come first.
    """
    resamples, size = len(targets), design.shape[1]
    best, best_error = np.zeros((resamples, size)), np.full(resamples, np.inf)
    best_error[:] = np.einsum("rp,rp->r", targets, targets)  # of all zero
    for kept in _subsets(size):
        if len(kept) > len(design):
            continue
        part = design[:, kept]
        found = targets @ np.linalg.pinv(part).T
        error = np.square(targets - found @ part.T).sum(axis=1)
        # a further term must earn its place: rounding alone is no reason for it
        better = np.all(found >= 0, axis=1) & (error < best_error - 1e-14)
        best[better] = 0.0
        rows = np.flatnonzero(better)
        best[np.ix_(rows, np.array(kept))] = found[rows]
        best_error[rows] = error[rows]
    return best


@cache
def _subsets(size: int) -> tuple[tuple[int, ...], ...]:
    return tuple(kept for many in range(1, size + 1) for kept in combinations(range(size), many))
