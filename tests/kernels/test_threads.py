"""Every share is taken once, by however many threads, and what fails on one of them is not lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.kernels.compiling import kernel
from twophase.kernels.threads import share_out


@kernel
def mark(first, last, found, amount, twice) -> None:
    for i in range(first, last):
        found[i] += amount * (2 if twice else 1)


@kernel
def marked(found, amount, twice, threads) -> None:
    share_out(mark, found.size, threads, (found, amount, twice))


@given(count=st.integers(0, 50), threads=st.integers(1, 5), twice=st.booleans())
@settings(deadline=None)
def test_each_is_done_once(count: int, threads: int, twice: bool) -> None:
    found = np.zeros(count)
    marked(found, 3.0, twice, threads)
    np.testing.assert_array_equal(found, 6.0 if twice else 3.0)


@kernel
def refuse(first, last, wrong) -> None:
    if first <= wrong < last:
        raise ValueError


@kernel
def refused(count, wrong, threads) -> None:
    share_out(refuse, count, threads, (wrong,))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("wrong", [0, 9])
def test_a_failure_of_one_fails_the_kernel(threads: int, wrong: int) -> None:
    with pytest.raises(RuntimeError, match="a thread of a kernel failed"):
        refused(10, wrong, threads)
    refused(10, 10, threads)
