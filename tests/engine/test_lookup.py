"""Drafts by lookup against a plain search through the whole sequence."""

from hypothesis import given
from hypothesis import strategies as st

from twophase.engine.lookup import NgramDrafts, next_length


def searched(tokens: list[int], most: int, longest: int, shortest: int) -> list[int]:
    """The longest suffix that stands earlier, where it stood last, and what came behind it."""
    for size in range(longest, shortest - 1, -1):
        for end in range(len(tokens) - 1, size - 1, -1):
            if len(tokens) >= size and tokens[end - size : end] == tokens[-size:]:
                drafts = tokens[end:]
                while len(drafts) < most:
                    drafts += tokens[end:]
                return drafts[:most]
    return []


@given(
    tokens=st.lists(st.integers(0, 3), max_size=60),
    steps=st.lists(st.integers(1, 5), max_size=30),
    most=st.integers(0, 6),
    sizes=st.sampled_from([(3, 2), (4, 1), (2, 2)]),
)
def test_proposes_what_a_search_finds(
    tokens: list[int], steps: list[int], most: int, sizes: tuple[int, int]
) -> None:
    drafts, known = NgramDrafts(*sizes), 0
    for step in steps:  # as a sequence grows, by one or more tokens a pass
        known = min(known + step, len(tokens))
        assert drafts.propose(tokens[:known], most) == searched(tokens[:known], most, *sizes)


def test_a_quotation_and_a_loop_go_on() -> None:
    assert NgramDrafts().propose([1, 2, 3, 4, 5, 9, 2, 3], 3) == [4, 5, 9]
    assert NgramDrafts().propose([7, 8, 7, 8, 7], 5) == [8, 7, 8, 7, 8]
    assert NgramDrafts().propose([1, 2, 3, 4], 3) == []


def test_length_follows_acceptance() -> None:
    assert next_length(3, 3, 3, most=8) == 5
    assert next_length(7, 7, 7, most=8) == 8
    assert next_length(3, 3, 2, most=8) == 2
    assert next_length(1, 1, 0, most=8) == 1
