"""What a workload must be, whoever makes it: the clock and the books rest on it."""

import numpy as np
import pytest

from twophase.errors import InputError
from twophase.workload.workload import LATEST_S, Workload

ONE = np.ones(2, np.int64)


@pytest.mark.parametrize(
    ("arrival_s", "prompts", "outputs", "says"),
    [
        ([0.0, np.nan], [1, 1], [1, 1], "from 0 on"),
        ([0.0, np.inf], [1, 1], [1, 1], "from 0 on"),
        ([-1.0, 0.0], [1, 1], [1, 1], "from 0 on"),
        ([0.0, 2 * LATEST_S], [1, 1], [1, 1], "within 1e"),
        ([1.0, 0.0], [1, 1], [1, 1], "in order"),
        ([0.0, 0.0], [0, 1], [1, 1], "prompt_tokens"),
        ([0.0, 0.0], [1, 1], [1, -1], "output_tokens"),
        ([0.0, 0.0], [1, 1], [1, 1 << 50], "output_tokens"),
        ([0.0], [1, 1], [1, 1], "as many"),
    ],
)
def test_what_is_no_workload(
    arrival_s: list[float], prompts: list[int], outputs: list[int], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        Workload(np.array(arrival_s), np.array(prompts), np.array(outputs)).require_sound()


def test_later_turns_wait_for_no_order() -> None:
    """A turn's time is from its predecessor's end: it may be less than an arrival before it."""
    Workload(np.array([5.0, 0.1]), ONE, ONE, follows=np.array([-1, 0])).require_sound()
