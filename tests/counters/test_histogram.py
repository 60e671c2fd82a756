"""Quantiles by hand, and what their buckets allow."""

from math import ceil, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.counters.histogram import Histogram, Quantile, implausible, merged, quantile

# A public sample of an inference server's TTFT: mean 0.25, p50 0.0875, p90 0.5, p99 0.95.
BUCKETS = ((0.01, 0.0), (0.05, 2.0), (0.1, 6.0), (0.5, 9.0), (1.0, 10.0), (inf, 10.0))
PUBLIC = Histogram(10, 2.5, BUCKETS)


def test_a_public_sample() -> None:
    assert PUBLIC.mean == 0.25
    half, most, last = (quantile(PUBLIC, share) for share in (0.5, 0.9, 0.99))
    assert half == Quantile(pytest.approx(0.0875), 0.05, 0.1)
    assert most == Quantile(pytest.approx(0.5), 0.1, 0.5)
    assert last == Quantile(pytest.approx(0.95), 0.5, 1.0)


def test_beyond_the_last_bound_there_is_no_upper_end() -> None:
    assert quantile(Histogram(10, 99, ((1.0, 5.0), (inf, 10.0))), 0.9) == Quantile(1.0, 1.0, None)
    assert quantile(Histogram(0, 0, ((1.0, 0.0), (inf, 0.0))), 0.5) is None
    assert quantile(Histogram(3, 1, ()), 0.5) is None


def test_the_bucket_is_the_answer_where_the_metric_has_no_more() -> None:
    """llm-d-inference-sim#266: 4 s of TTFT between bounds of 2.5, 5 and 7.5: a range, not 6.4 s."""
    found = quantile(Histogram(100, 640, ((2.5, 0.0), (5.0, 40.0), (7.5, 100.0), (inf, 100.0))), 0.5)
    assert found is not None and (found.low, found.high) == (5.0, 7.5)


@given(
    st.lists(st.floats(0.0005, 20), min_size=1, max_size=60),
    st.sets(st.floats(0.001, 10), min_size=1, max_size=8),
    st.floats(0.01, 1),
)
def test_the_truth_lies_within_its_bucket(values: list[float], bounds: set[float], share: float) -> None:
    buckets = tuple(
        (bound, float(sum(value <= bound for value in values))) for bound in (*sorted(bounds), inf)
    )
    own = Histogram(len(values), sum(values), buckets)
    truth = sorted(values)[max(ceil(share * len(values) - 1e-9), 1) - 1]
    found = quantile(own, share)
    assert found is not None and found.low <= truth <= (inf if found.high is None else found.high)
    assert found.low <= found.value <= (inf if found.high is None else found.high)
    assert implausible(own, 0.0) is None


@pytest.mark.parametrize(
    ("own", "why"),
    [
        # vLLM 0.5.1 (vllm#6337): 208 observations, all of them up to 1 ms
        (Histogram(208, 0.0, ((0.001, 208.0), (0.005, 208.0), (inf, 208.0))), "first bucket, up to 0.001"),
        (Histogram(10, 50.0, ((0.1, 10.0), (inf, 10.0))), "outside of what its buckets allow"),
        (Histogram(10, 1.0, ((0.1, 5.0), (0.2, 4.0), (inf, 10.0))), "fall where they must rise"),
        (Histogram(10, 0.5, ((0.1, 10.0), (inf, 10.0))), None),  # SGLang's first bound of TTFT: a fast model
        (PUBLIC, None),
    ],
)
def test_what_can_not_be(own: Histogram, why: str | None) -> None:
    found = implausible(own, 0.001)
    assert found is None if why is None else found is not None and why in found


def test_ranks_with_other_bounds_have_those_of_both() -> None:
    one = [(0.1, 1.0), (0.5, 2.0), (inf, 3.0)]
    other = [(0.1, 4.0), (1.0, 5.0), (inf, 6.0)]
    assert merged([one, other]) == ((0.1, 5.0), (inf, 9.0))
    assert merged([]) == () and merged([[(0.1, 1.0)]]) == ()
