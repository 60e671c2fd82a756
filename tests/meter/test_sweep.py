from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.meter.sweep import MOST_LEVELS, Step, next_load


def swept(measure: Callable[[float], Step], first: float, whole: bool) -> list[float]:
    steps: list[Step] = []
    while (load := next_load(steps, first, whole)) is not None:
        steps.append(measure(load))
    return [step.load for step in steps]


def test_a_closed_sweep_doubles_until_throughput_no_longer_grows() -> None:
    """A server of 100 tokens/s a stream, 1600 at most."""
    loads = swept(lambda load: Step(load, min(100 * load, 1600), None, None), 1, True)
    assert loads == [1, 2, 4, 8, 16, 32]


def test_an_open_sweep_ends_where_the_rate_is_no_longer_served() -> None:
    loads = swept(lambda load: Step(load, 1.0, min(1.0, 30 / load), None), 5, False)
    assert loads == [5, 10, 20, 40]


@pytest.mark.parametrize("most", [1, 5, 23, 100])
def test_a_sweep_to_an_slo_finds_the_most_streams_that_meet_it(most: int) -> None:
    loads = swept(lambda load: Step(load, 100 * load, None, 1.0 if load <= most else 0.5), 1, True)
    met = max(load for load in loads if load <= most)
    missed = min(load for load in loads if load > most)
    assert missed / met <= 1.1 or missed - met == 1
    assert all(load == int(load) for load in loads)
    assert len(set(loads)) == len(loads)


def test_an_slo_that_even_the_first_load_misses_is_looked_for_below() -> None:
    loads = swept(lambda load: Step(load, 1.0, 1.0, 1.0 if load <= 0.7 else 0.0), 8, False)
    assert min(loads) <= 0.7
    assert min(load for load in loads if load > 0.7) / max(load for load in loads if load <= 0.7) <= 1.1
    assert swept(lambda load: Step(load, 1.0, None, 0.0), 8, True)[-1] == 1


def test_a_level_that_was_interrupted_is_the_last() -> None:
    assert next_load([Step(4, 1.0, None, None, ended=True)], 4, True) is None


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9), st.floats(0, 1) | st.none(), st.floats(0, 1) | st.none()), max_size=40
    ),
    st.floats(0.01, 1000),
    st.booleans(),
)
def test_every_sweep_ends(
    rows: list[tuple[float, float | None, float | None]], first: float, whole: bool
) -> None:
    results = iter(rows)

    def measure(load: float) -> Step:
        return Step(load, *next(results, (0.0, None, None)))

    assert len(swept(measure, round(first) + 1 if whole else first, whole)) <= MOST_LEVELS
