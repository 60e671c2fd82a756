"""Fits with coefficients that can't be negative, on relative error, with intervals; many at once."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from twophase.non_negative import Floats, non_negative

REWEIGHTED = 4  # rounds in which the weights come to be those of the fit itself
# 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom
T975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145),
    *(2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048),
    *(2.045, 2.042),
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % confidence interval; high is None where the data set no upper limit."""

    value: float
    low: float
    high: float | None


@dataclass(frozen=True, slots=True)
class Solution:
    coefficients: Floats  # non-negative
    free: Floats  # without that constraint
    covariance: Floats  # of the free ones
    relative: Floats  # residuals, as shares of the fit
    freedom: int  # points less coefficients

    @property
    def noise(self) -> float:
        """Standard deviation of a point about the curve, as a share of it."""
        return sqrt(float(self.relative @ self.relative) / max(self.freedom, 1))

    def estimate(self, at: int) -> Estimate:
        """The interval of the free solution, of which only what is not negative remains."""
        half = t975(self.freedom) * sqrt(max(float(self.covariance[at, at]), 0.0))
        value, centre = float(self.coefficients[at]), float(self.free[at])
        return Estimate(value, min(value, max(0.0, centre - half)), max(value, centre + half, 0.0))

    def at(self, columns: Floats) -> Estimate:
        """The curve at one row of columns, with the interval of its mean."""
        half = t975(self.freedom) * sqrt(max(float(columns @ self.covariance @ columns), 0.0))
        value = float(columns @ self.coefficients)
        return Estimate(value, max(0.0, value - half), value + half)


def t975(freedom: int) -> float:
    """Beyond 30 degrees of freedom, the expansion about the normal quantile, right to three decimals."""
    if freedom < 1:
        return float("inf")
    return T975[freedom - 1] if freedom <= len(T975) else 1.95996 + 2.3722 / freedom + 2.82 / freedom**2


def solve(columns: Floats, seconds: Floats) -> Solution:
    """columns: [points, coefficients]. Each residual counts as a share of the fitted curve there."""
    scale = np.maximum(np.abs(columns).max(axis=0), 1e-300)
    scaled = columns / scale
    weight = seconds
    for _ in range(REWEIGHTED):
        best = non_negative(scaled / weight[:, None], (seconds / weight)[None, :])[0]
        weight = np.maximum(scaled @ best, 1e-3 * seconds)
    design, target = scaled / weight[:, None], seconds / weight
    free = np.linalg.lstsq(design, target, rcond=None)[0]
    freedom = len(seconds) - columns.shape[1]
    residuals = target - design @ free
    variance = float(residuals @ residuals) / freedom if freedom > 0 else float("inf")
    covariance = (
        np.linalg.pinv(design.T @ design) * variance if freedom > 0 else np.diag(np.full(len(scale), np.inf))
    )
    return Solution(
        coefficients=best / scale,
        free=free / scale,
        covariance=covariance / np.outer(scale, scale),
        relative=target - design @ best,
        freedom=freedom,
    )


def resampled(curve: Floats, noise: float, freedom: int, resamples: int, seed: int) -> Floats:
    """[resamples, points]: what might have been measured, had the curve been true.

    The noise is itself uncertain by its degrees of freedom, which makes intervals as wide as Student's.
    """
    rng = np.random.default_rng(seed)
    spread = noise * np.sqrt(max(freedom, 1) / rng.chisquare(max(freedom, 1), resamples))
    return np.asarray(curve * (1 + spread[:, None] * rng.standard_normal((resamples, len(curve)))))


def interval(value: float, samples: Floats) -> Estimate:
    """The middle 95 % of samples, of which some may be infinite."""
    low, high = (float(each) for each in np.quantile(samples, (0.025, 0.975), method="nearest"))
    return Estimate(value, min(value, low), max(value, high) if np.isfinite(high) else None)
