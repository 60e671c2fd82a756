"""TTFT against prompt length at concurrency 1: what a pass costs at least, a token, and a pair of tokens.

    TTFT(n) = a + b·n + c·n²     or, where the data prefer it,     max(floor, a + b·n + c·n²)

on relative error, so that 16 tokens count as much as 65,536.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt
from typing import Literal

import numpy as np

from twophase.meter.least_squares import Estimate, Solution, interval, resampled, solve, t975
from twophase.non_negative import Floats, non_negative

Form = Literal["polynomial", "floored"]
BEND_SHARE = 0.1  # the curve bends where its quadratic part reaches this share of the linear part
RESAMPLES = 400
FEWEST = 5  # points; three coefficients and the noise ask for them
FLOOR_POINTS, CURVE_POINTS = 3, 4  # at least so many on each side of the break
PREFERRED = 6.0  # how much lower the information criterion must be before a floor is believed
NOISY = 0.1  # of the curve: a fit with more noise, or a point further off than thrice that, is poor
NARROW = 8.0  # times the shortest prompt: over less the three parts can't be told apart


@dataclass(frozen=True, slots=True)
class TtftFit:
    """Seconds; n counts prompt tokens as the server counts them."""

    form: Form
    overhead_s: Estimate
    linear_s_per_token: Estimate
    quadratic_s_per_token2: Estimate
    floor_s: Estimate | None  # of the floored form
    bend_prompt_tokens: (
        Estimate | None
    )  # the quadratic part is a tenth of the linear; None: no quadratic part
    quadratic_equals_linear_tokens: Estimate | None
    leaves_floor_tokens: Estimate | None  # of the floored form: where its floor ends
    work_equals_overhead_tokens: (
        Estimate | None
    )  # where the prompt's own work outweighs what every pass costs
    points: int
    from_tokens: int
    to_tokens: int
    noise: float  # standard deviation of a point about the curve, as a share of it
    worst: float  # the furthest point, as a share of the curve
    poor: tuple[str, ...]  # why not to rely on it; empty where one may
    covariance: tuple[tuple[float, ...], ...]  # of overhead, linear and quadratic part

    @property
    def coefficients(self) -> tuple[float, float, float]:
        return self.overhead_s.value, self.linear_s_per_token.value, self.quadratic_s_per_token2.value


def ttft_at(fit: TtftFit, tokens: float) -> float:
    a, b, c = fit.coefficients
    curve = a + b * tokens + c * tokens**2
    return max(curve, fit.floor_s.value) if fit.floor_s else curve


def ttft_between(fit: TtftFit, tokens: float) -> Estimate:
    """With the 95 % interval of the curve there, not of a single request."""
    value = ttft_at(fit, tokens)
    if fit.floor_s and value == fit.floor_s.value:
        return fit.floor_s
    row = np.array([1.0, tokens, tokens**2])
    freedom = fit.points - (4 if fit.floor_s else 3)
    half = t975(freedom) * sqrt(max(float(row @ np.array(fit.covariance) @ row), 0.0))
    return Estimate(value, max(0.0, value - half), value + half)


def fit_ttft(points: Sequence[tuple[float, float]], seed: int = 0) -> TtftFit:
    """points: (prompt tokens, seconds), one for each length or several. ValueError with fewer than five."""
    if len(points) < FEWEST:
        raise ValueError(f"a TTFT curve needs {FEWEST} points, not {len(points)}")
    tokens, seconds = np.array(sorted(points), np.float64).T
    plain = solve(powers(tokens), seconds)
    broken = _floored(tokens, seconds)
    if broken is not None:
        gain = criterion(plain.relative, 3) - criterion(_relative(broken, tokens, seconds), 4)
        if gain > PREFERRED:
            return _floored_fit(broken, tokens, seconds, seed)
    return _plain_fit(plain, tokens, seconds, seed)


def powers(tokens: Floats) -> Floats:
    return np.stack([np.ones_like(tokens), tokens, tokens**2], axis=1)


def criterion(relative: Floats, coefficients: int) -> float:
    """Akaike's, corrected for few points; the noise is a parameter, too."""
    n, k = len(relative), coefficients + 1
    return n * log(float(relative @ relative) / n + 1e-18) + 2 * k + 2 * k * (k + 1) / max(n - k - 1, 0.5)


Broken = tuple[Solution, Solution, int]  # the floor, the curve, and how many points lie on the floor


def _floored(tokens: Floats, seconds: Floats) -> Broken | None:
    """The best split of the points into a floor and a curve that rises out of it."""
    best, best_error = None, inf
    for at in _splits(tokens):
        floor = solve(np.ones((at, 1)), seconds[:at])
        curve = solve(powers(tokens[at:]), seconds[at:])
        relative = _relative((floor, curve, at), tokens, seconds)
        error = float(relative @ relative)
        if error < best_error:
            best, best_error = (floor, curve, at), error
    return best


def _splits(tokens: Floats) -> list[int]:
    """Between two lengths, never within the repeats of one."""
    return [
        at
        for at in range(FLOOR_POINTS, len(tokens) - CURVE_POINTS + 1)
        if tokens[at] > tokens[at - 1] and len(np.unique(tokens[:at])) >= FLOOR_POINTS
    ]


def _values(floor: float, coefficients: Floats, tokens: Floats) -> Floats:
    return np.asarray(np.maximum(floor, powers(tokens) @ coefficients))


def _relative(broken: Broken, tokens: Floats, seconds: Floats) -> Floats:
    floor, curve, _ = broken
    return np.asarray(seconds / _values(floor.coefficients[0], curve.coefficients, tokens) - 1)


def _plain_fit(found: Solution, tokens: Floats, seconds: Floats, seed: int) -> TtftFit:
    curve = powers(tokens) @ found.coefficients
    drawn = resampled(curve, found.noise, found.freedom, RESAMPLES, seed)
    samples = non_negative(powers(tokens / tokens.max()) / curve[:, None], drawn / curve)
    samples = samples / np.array([1.0, tokens.max(), tokens.max() ** 2])
    return _fit("polynomial", found, None, samples, None, tokens, found.relative)


def _floored_fit(broken: Broken, tokens: Floats, seconds: Floats, seed: int) -> TtftFit:
    floor, curve, _ = broken
    relative = _relative(broken, tokens, seconds)
    freedom = len(tokens) - 4
    noise = sqrt(float(relative @ relative) / max(freedom, 1))
    truth = _values(floor.coefficients[0], curve.coefficients, tokens)
    drawn = resampled(truth, noise, freedom, RESAMPLES, seed)
    floors, samples = _refitted(drawn, truth, tokens)
    return _fit("floored", curve, floor, samples, floors, tokens, relative)


def _refitted(drawn: Floats, truth: Floats, tokens: Floats) -> tuple[Floats, Floats]:
    """(floors, coefficients) of each resample, its own split searched anew."""
    longest = tokens.max()
    best_error = np.full(len(drawn), inf)
    floors, samples = np.zeros(len(drawn)), np.zeros((len(drawn), 3))
    for at in _splits(tokens):
        floor = drawn[:, :at].mean(axis=1)
        scaled = non_negative(
            powers(tokens[at:] / longest) / truth[at:, None], drawn[:, at:] / truth[at:]
        ) / np.array([1.0, longest, longest**2])
        values = np.maximum(floor[:, None], scaled @ powers(tokens).T)
        error = np.square((drawn - values) / truth).sum(axis=1)
        better = error < best_error
        best_error[better], floors[better], samples[better] = error[better], floor[better], scaled[better]
    return floors, samples


def _fit(
    form: Form,
    curve: Solution,
    floor: Solution | None,
    samples: Floats,
    floors: Floats | None,
    tokens: Floats,
    relative: Floats,
) -> TtftFit:
    a, b, c = (curve.estimate(i) for i in range(3))
    freedom = len(tokens) - (3 if floor is None else 4)
    values = (float(curve.coefficients[0]), float(curve.coefficients[1]), float(curve.coefficients[2]))
    noise = sqrt(float(relative @ relative) / max(freedom, 1))
    drawn = samples.T
    leaves = work = None
    if floor is not None and floors is not None:
        level = float(floor.coefficients[0])
        leaves = turning(
            reaching(level - values[0], values[1], values[2]), reaching(floors - drawn[0], drawn[1], drawn[2])
        )
    elif a.value > 0:
        work = turning(reaching(*values), reaching(drawn[0], drawn[1], drawn[2]))
    made = TtftFit(
        form=form,
        overhead_s=a,
        linear_s_per_token=b,
        quadratic_s_per_token2=c,
        floor_s=floor.estimate(0) if floor else None,
        bend_prompt_tokens=turning(
            ratio(BEND_SHARE * values[1], values[2]), ratio(BEND_SHARE * drawn[1], drawn[2])
        ),
        quadratic_equals_linear_tokens=turning(ratio(values[1], values[2]), ratio(drawn[1], drawn[2])),
        leaves_floor_tokens=leaves,
        work_equals_overhead_tokens=work,
        points=len(tokens),
        from_tokens=int(tokens.min()),
        to_tokens=int(tokens.max()),
        noise=noise,
        worst=float(np.abs(relative).max()),
        poor=(),
        covariance=tuple(tuple(float(each) for each in row) for row in curve.covariance),
    )
    return _judged(made)


def ratio(above: Floats | float, below: Floats | float) -> Floats:
    """Infinite where nothing is below."""
    top, bottom = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, inf), where=bottom > 0))


def reaching(level: Floats | float, linear: Floats | float, quadratic: Floats | float) -> Floats:
    """n at which linear·n + quadratic·n² is `level`: infinite where it never is."""
    need = np.maximum(np.asarray(level, np.float64), 0.0)
    slope = np.asarray(linear, np.float64)
    root = np.sqrt(np.square(slope) + 4 * np.asarray(quadratic, np.float64) * need)
    return ratio(2 * need, slope + root)  # the form that stays exact where the quadratic part is nothing


def turning(value: Floats, samples: Floats) -> Estimate | None:
    """None where the curve never gets there."""
    return interval(float(value), np.asarray(samples)) if np.isfinite(value) else None


def _judged(fit: TtftFit) -> TtftFit:
    reasons = []
    if fit.noise > NOISY:
        reasons.append(f"points lie {fit.noise:.0%} off the curve (standard deviation)")
    if fit.worst > max(3 * NOISY, 4 * fit.noise):
        reasons.append(f"the furthest lies {fit.worst:.0%} off")
    if fit.to_tokens < NARROW * fit.from_tokens:
        reasons.append(
            f"prompts of {fit.from_tokens} to {fit.to_tokens} tokens are too alike to tell its parts apart"
        )
    slope = fit.linear_s_per_token
    if (
        slope.high is not None
        and slope.high - slope.low > 2 * slope.value
        and fit.quadratic_s_per_token2.low == 0
    ):
        reasons.append("its linear part is less certain than it is large")
    return replace(fit, poor=tuple(reasons))
