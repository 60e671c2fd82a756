"""Robust fits of kernels' curves, in NumPy alone: a formula's four numbers, its grids, and affine times."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curve import Curve, Grid, between, curve_s
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
Work = tuple[Floats, Floats, dict[str, Floats]]  # FLOPs, bytes and features
Grids = Sequence[tuple[str, Sequence[float], str, Sequence[float]]]  # two features, with their knots
RIDGE = 3.0  # knots that few rows speak for stay near the formula
ROBUST = 0.1  # relative residuals beyond this count with their size, not its square


def least_squares(residual: Callable[[Floats], Floats], start: Sequence[float], steps: int = 80) -> Floats:
    """Levenberg and Marquardt's, with a numeric Jacobian."""
    at, damp = np.array(start, np.float64), 1e-2
    own = residual(at)
    for _ in range(steps):
        jacobian = np.stack([(residual(at + h) - own) / 1e-4 for h in np.eye(len(at)) * 1e-4], 1)
        normal, slope = jacobian.T @ jacobian, jacobian.T @ own
        while True:
            step = np.linalg.solve(normal + damp * np.diag(np.diag(normal) + 1e-9), -slope)
            new = residual(at + step)
            if new @ new < own @ own or damp > 1e8:
                break
            damp *= 5
        if damp > 1e8 or own @ own - new @ new < 1e-7 * (own @ own):
            return at
        at, own, damp = at + step, new, max(damp / 5, 1e-9)
    return at


def fit_curve(
    kind: str,
    accelerator: Accelerator,
    work: Work,
    measured: Floats,
    grids: Grids,
) -> Curve:
    flops, moved, features = work

    def curve(at: Floats) -> Curve:
        share = 1 / (1 + np.exp(-np.clip(at[1:3], -6, 6)))
        return Curve(
            kind,
            float(np.exp(np.clip(at[0], -15, -8))),
            float(share[0]),
            float(share[1]),
            float(1 + 3 / (1 + np.exp(-np.clip(at[3], -6, 6)))),
        )

    def residual(at: Floats) -> Floats:
        log = np.log(curve_s(curve(at), accelerator, flops, moved, features) / measured)
        return np.asarray(np.sign(log) * np.sqrt(np.minimum(log**2, 2 * ROBUST * np.abs(log))))

    found = curve(least_squares(residual, [np.log(6e-6), 0.5, 1.0, 0.0]))
    if not grids:
        return found
    left = np.log(measured / curve_s(found, accelerator, flops, moved, features))
    return found._replace(grids=grids_of(features, left, grids))


def grids_of(
    features: dict[str, Floats],
    left: Floats,
    wanted: Grids,
) -> tuple[Grid, ...]:
    knots = [(np.array(a, np.float64), np.array(b, np.float64)) for _, a, _, b in wanted]
    design = np.hstack(
        [
            _product(_hats(a, features[one]), _hats(b, features[other]))
            for (one, _, other, _), (a, b) in zip(wanted, knots, strict=True)
        ]
    )
    values = _ridge(design, left)
    found, start = [], 0
    for (one, _, other, _), (a, b) in zip(wanted, knots, strict=True):
        size = len(a) * len(b)
        found.append(Grid((one, other), (a, b), values[start : start + size].reshape(len(a), len(b))))
        start += size
    return tuple(found)


def _ridge(design: Floats, left: Floats, rounds: int = 4) -> Floats:
    weight = np.ones(len(left))
    for _ in range(rounds):
        own = design * weight[:, None]
        values = np.linalg.solve(own.T @ design + RIDGE * np.eye(design.shape[1]), own.T @ left)
        weight = np.minimum(1.0, ROBUST / np.maximum(np.abs(left - design @ values), 1e-9))
    return np.asarray(values)


def _hats(knots: Floats, at: Floats) -> Floats:
    """How much of each knot speaks at each point."""
    low, on = between(knots, at)
    found = np.zeros((len(on), len(knots)))
    every = np.arange(len(on))
    found[every, low] = 1 - on
    found[every, low + 1] += on
    return found


def _product(one: Floats, other: Floats) -> Floats:
    return (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
