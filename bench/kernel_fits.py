"""Robust fits of kernels' curves, in NumPy alone: a formula's four numbers, its grids, and affine times."""

from collections.abc import Sequence

import numpy as np
from levenberg_marquardt import least_squares
from numpy.typing import NDArray

from twophase.calibration.curve import Curve, Grid, between, curve_s
from twophase.calibration.least_squares import ROBUST
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
Work = tuple[Floats, Floats, dict[str, Floats]]  # FLOPs, bytes and features
Grids = Sequence[tuple[str, Sequence[float], str, Sequence[float]]]  # two features, with their knots
RIDGE = 3.0  # knots that few rows speak for stay near the formula


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
