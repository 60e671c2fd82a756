"""Affine times of least relative error: no coefficient below its least, and no outlier that pulls."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROBUST = 0.1  # relative residuals beyond this count with their size, not its square


def affine(
    design: Floats,
    measured: Floats,
    rounds: int = 8,
    prior: Floats | None = None,
    least: Floats | None = None,
) -> Floats:
    """design: [points, coefficients]. prior: more rows of it, as shares of a point, with targets in the last
    column: what holds where points say nothing. least: of each coefficient, 0 without it."""
    least = np.zeros(design.shape[1]) if least is None else least
    weight, active = np.ones(len(measured)), np.ones(design.shape[1], bool)
    found = least
    for _ in range(rounds):
        rows, target = design * (weight / measured)[:, None], weight
        if prior is not None:
            rows, target = np.vstack([rows, prior[:, :-1]]), np.append(target, prior[:, -1])
        target = target - rows @ least
        while active.any():
            own = rows[:, active]
            values = np.linalg.lstsq(own, target, rcond=None)[0]
            if (values >= 0).all():
                break
            scale = values * np.linalg.norm(own, axis=0)
            active[np.flatnonzero(active)[np.argmin(scale)]] = False
        found = least.copy()
        if active.any():
            found[active] += values
        away = np.abs(design @ found / measured - 1)
        weight = np.sqrt(np.minimum(1.0, ROBUST / np.maximum(away, 1e-9)))
    return found
