"""Levenberg's and Marquardt's least squares, in NumPy alone."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DAMPED, STIFFEST, LOOSEST = 1e-2, 1e8, 1e-9  # damping, as shares of the normal matrix's diagonal
TURN = 5.0  # by which a step that fails stiffens it, and one that gains loosens it


def least_squares(
    residuals: Callable[[Floats], Floats],
    start: Floats | Sequence[float],
    rounds: int = 80,
    *,
    slopes: Callable[[Floats], Floats] | None = None,
    nudge: float = 1e-4,
    longest: float = np.inf,
    least_gain: float = 1e-7,
) -> Floats:
    """slopes: of the residuals, numeric if not given. nudge: of each number, for those. longest: of a step,
    in each. least_gain: of the sum of squares, below which a round is the last."""
    at, damping = np.array(start, np.float64), DAMPED
    now = residuals(at)
    for _ in range(rounds):
        if slopes:
            steep = slopes(at)
        else:
            steep = np.stack([(residuals(at + one) - now) / nudge for one in nudge * np.eye(len(at))], axis=1)
        normal, pull = steep.T @ steep, steep.T @ now
        while True:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -pull)
            step = np.clip(step, -longest, longest)
            then = residuals(at + step)
            if then @ then < now @ now:
                break
            damping *= TURN
            if damping > STIFFEST:
                return at
        gained = 1 - (then @ then) / (now @ now)
        at, now, damping = at + step, then, max(damping / TURN, LOOSEST)
        if gained < least_gain:
            break
    return at
