"""The TTFT curve: three costs fitted to the measured prompts, and where it bends upward."""

from collections.abc import Sequence
from math import exp, log

import numpy as np

from twophase.advise.diagnosis import Bend, PrefillRow
from twophase.non_negative import Floats, non_negative

BEND_SHARE = 0.1  # the curve bends where attention's quadratic part reaches this share of the linear part


def fit_ttft(rows: Sequence[PrefillRow]) -> Bend:
    """Fit ttft(n) = a + b·n + c·n², a, b, c >= 0, by least squares of the relative error. Needs a row.

    Prompts that memory binds are left out where three others remain: they all read the weights once,
    and that time would pass for overhead of every longer prompt.
    """
    arithmetic = [row for row in rows if row.compute_s >= row.memory_s]
    fitted = arithmetic if len(arithmetic) >= 3 else rows
    tokens = np.array([row.prompt_tokens for row in fitted], dtype=np.float64)
    seconds = np.array([row.ttft_s for row in fitted], dtype=np.float64)
    overhead, linear, quadratic = polynomial(tokens, seconds)
    bend = BEND_SHARE * linear / quadratic if quadratic > 0 else None
    return Bend(
        overhead_s=overhead,
        linear_s_per_token=linear,
        quadratic_s_per_token2=quadratic,
        bend_prompt_tokens=bend if bend is not None and bend <= tokens.max() else None,
        compute_bound_from_tokens=compute_bound_from(rows),
        fitted_from_tokens=int(tokens.min()),
    )


def ttft_at(fit: Bend, tokens: float) -> float:
    """Seconds to the first token of a prompt of `tokens`, by the fitted curve."""
    return fit.overhead_s + fit.linear_s_per_token * tokens + fit.quadratic_s_per_token2 * tokens**2


def polynomial(x: Floats, y: Floats) -> tuple[float, float, float]:
    """(a, b, c) >= 0 of the a + b·x + c·x² nearest to y in relative error; of one point, b alone."""
    scale = float(x.max())  # columns of one size keep the solve well conditioned
    columns = np.stack([x / scale, np.ones_like(x), (x / scale) ** 2], axis=1) / y[:, None]
    linear, overhead, quadratic = non_negative(columns, np.ones((1, len(y))))[0].tolist()
    return overhead, linear / scale, quadratic / scale**2


def compute_bound_from(rows: Sequence[PrefillRow]) -> float:
    """Prompt length from which the floor is arithmetic: compute_s / memory_s passes one, straight in log–log.

    Carried on beyond the measured lengths where they lie on one side; never below one token.
    """
    points = sorted((log(row.prompt_tokens), log(row.compute_s / row.memory_s)) for row in rows)
    if len(points) == 1:  # arithmetic grows with the prompt, the weights' bytes do not
        return max(1.0, exp(points[0][0] - points[0][1]))
    crossed = next((i for i, (_, ratio) in enumerate(points) if ratio >= 0), len(points) - 1)
    (x0, y0), (x1, y1) = points[max(crossed - 1, 0)], points[max(crossed, 1)]
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 and y1 > y0 else 1.0
    return max(1.0, exp(x0 - y0 / slope))
