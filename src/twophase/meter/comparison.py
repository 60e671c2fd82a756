"""Two runs side by side: differences of means and percentiles, by pairs of requests where there are any."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twophase.meter.latency import Since, e2e_s, gaps_s, ttft_s
from twophase.meter.least_squares import Estimate
from twophase.meter.records import LoadRun, Reply
from twophase.non_negative import Floats

RESAMPLES = 1000
MOST_VALUES = 20_000_000  # drawn for one metric: fewer resamples of a long run
PAIRED = 0.8  # of the smaller run's finished requests: with fewer pairs both count as samples of their own
ALIKE = 0.05  # of the prompt's tokens: two requests further apart are no pair

METRICS: tuple[tuple[str, Callable[[Reply, Since], float | None]], ...] = (
    ("TTFT", ttft_s),
    ("TPOT", lambda reply, since: reply.tpot_s),
    ("E2E", e2e_s),
    ("longest gap", lambda reply, since: max(gaps_s(reply), default=None)),
)
UNJUDGED = "samples differ"
STATISTICS = ("mean", "p50", "p99")
TAIL = 100  # values below which a p99 is the maximum, and resampling it tells nothing


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one figure in seconds: the other run's less the base's, with a 95 % bootstrap interval."""

    metric: str
    statistic: str
    base_s: float
    other_s: float
    difference_s: Estimate
    requests: int  # pairs, or of the smaller run

    @property
    def verdict(self) -> str:
        """Whether zero lies outside of the interval."""
        own = self.difference_s
        if own.low > 0:
            return "slower"
        return "faster" if own.high is not None and own.high < 0 else "no difference seen"


@dataclass(frozen=True, slots=True)
class Comparison:
    paired: bool
    pairs: int
    differences: tuple[Difference, ...]
    finished: tuple[int, int] = (0, 0)

    @property
    def unequal(self) -> bool:
        """Whether samples of unlike size are all there is: what one lacks may be its slowest requests."""
        return not self.paired and max(self.finished) > (1 + ALIKE) * min(self.finished)

    def verdict(self, each: Difference) -> str:
        return UNJUDGED if self.unequal else each.verdict


def compare(base: LoadRun, other: LoadRun, seed: int = 0) -> Comparison:
    """Of finished requests. Both count from `due` only where both are open loops."""
    since: Since = "due" if base.open_loop and other.open_loop else "sent"
    pairs = paired(base.replies, other.replies)
    finished = [[each for each in run.replies if each.outcome == "finished"] for run in (base, other)]
    smaller = min(map(len, finished))
    by_pairs = smaller > 0 and len(pairs) >= PAIRED * smaller
    found = []
    for name, time in METRICS:
        if by_pairs:
            both = [(time(one, since), time(two, since)) for one, two in pairs]
            known = [(one, two) for one, two in both if one is not None and two is not None]
            left, right = [one for one, _ in known], [two for _, two in known]
        else:
            left, right = (
                [value for each in own if (value := time(each, since)) is not None] for own in finished
            )
        if left and right:
            found += differences(name, left, right, together=by_pairs, seed=seed)
    return Comparison(by_pairs, len(pairs), tuple(found), (len(finished[0]), len(finished[1])))


def paired(base: Sequence[Reply], other: Sequence[Reply]) -> list[tuple[Reply, Reply]]:
    """Finished requests of one number and level in both runs, whose prompts are about as long. What replays a
    run of one level, as a simulation does, has no level's name."""
    levels = {each.point for each in base}, {each.point for each in other}
    nameless = max(map(len, levels)) == 1 and {""} in levels
    known = {
        ("" if nameless else each.point, each.number): each for each in base if each.outcome == "finished"
    }
    found = []
    for each in other:
        match = known.get(("" if nameless else each.point, each.number))
        if each.outcome == "finished" and match is not None:
            apart = abs(each.prompt_tokens - match.prompt_tokens)
            if apart <= ALIKE * max(each.prompt_tokens, match.prompt_tokens) + 2:
                found.append((match, each))
    return found


def differences(
    metric: str, base: Sequence[float], other: Sequence[float], *, together: bool, seed: int
) -> list[Difference]:
    """together: pairs are drawn whole, so that what both requests share cancels."""
    import numpy as np

    left, right = np.array(base, np.float64), np.array(other, np.float64)
    resamples = max(100, min(RESAMPLES, MOST_VALUES // max(len(left), len(right))))
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, len(STATISTICS)))
    for row in drawn:
        ones = rng.integers(0, len(left), len(left))
        twos = ones if together else rng.integers(0, len(right), len(right))
        row[:] = _statistics(right[twos]) - _statistics(left[ones])
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    mine, theirs = _statistics(left), _statistics(right)
    return [
        Difference(
            metric,
            statistic,
            float(mine[at]),
            float(theirs[at]),
            Estimate(float(theirs[at] - mine[at]), float(low[at]), float(high[at])),
            min(len(left), len(right)),
        )
        for at, statistic in enumerate(STATISTICS)
        if statistic != "p99" or min(len(left), len(right)) >= TAIL
    ]


def _statistics(values: Floats) -> Floats:
    import numpy as np

    return np.array([values.mean(), *np.percentile(values, (50, 99))])
