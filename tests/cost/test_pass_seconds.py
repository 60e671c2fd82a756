"""Sums over spans against each pair of query and key counted singly."""

import numpy as np
import pytest

from twophase.cost.pass_seconds import decode_growth, pass_cost
from twophase.cost.pass_times import FEW_ROWS, PassTimes

FULL, STEP = 24, 0.25  # rows of prompts that fill the machine; a last wave's time beyond its share


def times_of(windows: list[int]) -> PassTimes:
    mixers = np.array(
        [[window, *(np.arange(1, 11) * (i + 1.0)), FULL, STEP] for i, window in enumerate(windows)]
    )
    rows = np.arange(101.0)
    return PassTimes(
        *(7 * rows, 5 * rows, 11 * np.arange(4.0), mixers),
        *(13 * rows, 17 + rows, 19 * np.arange(4.0), 23 * np.arange(4.0), np.array([1.0, 1.0])),
    )


def counted(times: PassTimes, spans: list[tuple[int, int]], logits: int) -> tuple[float, float, float]:
    few = [new <= FEW_ROWS and context > 0 for new, context in spans]
    rows = sum(new for new, _ in spans)
    seconds, flops = (5.0 if all(few) else 7.0) * rows + 11 * logits, 13.0 * rows + 19 * logits
    bytes_ = 17.0 + rows + 23 * logits
    prompt_rows = sum(new for (new, _), like_decode in zip(spans, few, strict=True) if not like_decode)
    whole, rest = divmod(prompt_rows, FULL)  # waves
    last = rest / FULL + STEP * (1 - rest / FULL) if rest else 0
    longer = max(1, whole + last) * FULL / max(prompt_rows, 1)
    for window, *own in times.mixers.tolist():
        for kind, once in ((False, own[0]), (True, own[4])):
            seconds += once if kind in few else 0
        for (new, context), like_decode in zip(spans, few, strict=True):
            seen = [
                sum(1 for key in range(context + i + 1) if not window or key > context + i - window)
                for i in range(new)
            ]
            read = sum(1 for key in range(context) if not window or key > context - window)
            kept = sum(1 for i in range(new) if not window or i > new - window)  # for who comes next
            if like_decode:
                seconds += own[5] + (own[6] if all(few) else own[6] + own[9]) * read
            else:
                seconds += own[1] + own[2] * longer * sum(seen) + own[3] * read
            flops += own[7] * sum(seen)
            bytes_ += own[8] * (read + kept)
    return seconds, flops, bytes_


@pytest.mark.parametrize("windows", [[0], [6], [0, 9, 30]])
@pytest.mark.parametrize(
    "spans",
    [
        [(1, 5)],
        [(1, 4), (1, 40), (4, 12)],
        [(20, 0)],
        [(3, 0), (30, 7), (1, 8), (17, 20)],
        [(16, 1), (1, 0)],
    ],
)
def test_against_pairs_counted_singly(windows: list[int], spans: list[tuple[int, int]]) -> None:
    times = times_of(windows)
    new, context = (np.array(each, np.int64) for each in zip(*spans, strict=True))
    for logits in (0, 3, 6):
        assert pass_cost(times, new, context, logits) == pytest.approx(counted(times, spans, logits))


def test_decode_passes_grow_by_equal_steps_until_a_window_is_full() -> None:
    times, context = times_of([0, 9, 30]), np.array([3, 20, 40], np.int64)
    one = np.ones(3, np.int64)
    *steps, passes = decode_growth(times, context)
    costs = np.array([pass_cost(times, one, context + i, 3) for i in range(passes + 1)])
    differences = np.diff(costs, axis=0)
    assert passes == 6 and np.allclose(differences[:-1], steps)
    assert not np.allclose(differences[-1], steps)
