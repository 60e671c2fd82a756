"""Charts drawn by hand: places, ticks, and nothing that a browser would stumble over."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.report.bench_svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Marks,
    axis,
    chart,
    label,
    ticks,
)


def test_points_lie_where_they_should() -> None:
    x, y = Axis("x", 1.0, 100.0, log=True), Axis("y", 0.0, 10.0)
    drawn = ElementTree.fromstring(chart("t", x, y, [Marks("dots", [(1, 0), (10, 5), (100, 10)], "p")]))
    places = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in drawn.iter("circle")]
    middle = (LEFT + (WIDTH - LEFT - RIGHT) / 2, TOP + (HEIGHT - TOP - BOTTOM) / 2)
    assert places == [(LEFT, HEIGHT - BOTTOM), pytest.approx(middle, abs=0.1), (WIDTH - RIGHT, TOP)]


@pytest.mark.parametrize(
    ("own", "found"),
    [
        (Axis("", 0.0, 100.0), [0, 20, 40, 60, 80, 100]),
        (Axis("", 0.0, 0.7), [0, 0.2, 0.4, 0.6]),
        (Axis("", 14.0, 70000.0, log=True), [100, 1000, 10000]),
        (Axis("", 8.0, 60.0, log=True), [10, 15, 20, 30, 50]),
        (Axis("", 17.0, 28.0, log=True), [20, 25]),
    ],
)
def test_ticks_are_round(own: Axis, found: list[float]) -> None:
    assert ticks(own) == pytest.approx(found)


@given(
    st.lists(st.tuples(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9)), min_size=1, max_size=30),
    st.booleans(),
    st.booleans(),
)
def test_any_points_give_a_sound_drawing_within_its_frame(
    points: list[tuple[float, float]], log_x: bool, log_y: bool
) -> None:
    x = axis("<x>", [a for a, _ in points], log=log_x)
    y = axis("&y", [b for _, b in points], log=log_y, zero=not log_y)
    kinds = [Marks("line", points, "p", "<n>"), Marks("dash", points, "f"), Marks("dots", points, "q")]
    made = chart("a & b", x, y, [*kinds, Marks("vertical", points[:1], "f", "here")])
    drawn = ElementTree.fromstring(made)
    for circle in drawn.iter("circle"):
        assert LEFT <= float(circle.attrib["cx"]) <= WIDTH - RIGHT
        assert TOP <= float(circle.attrib["cy"]) <= HEIGHT - BOTTOM
    assert not re.search(r"nan|inf", made)
    assert 1 <= len(ticks(x)) <= 8


def test_labels_are_short() -> None:
    assert [label(v) for v in (0, 0.5, 100, 2000, 65536, 1.5e6)] == ["0", "0.5", "100", "2k", "65.5k", "1.5M"]


def test_names_of_lines_that_end_together_stand_apart() -> None:
    x, y = Axis("x", 0.0, 10.0), Axis("y", 0.0, 10.0)
    ends = [(0.0, 5.0, "batch 1"), (0.0, 5.01, "batch 2"), (0.0, 5.02, "batch 4"), (0.0, 9.99, "batch 16")]
    lines = [Marks("line", [(at, height), (10.0, height)], "q", name) for at, height, name in ends]
    drawn = ElementTree.fromstring(chart("t", x, y, lines))
    places = [float(each.attrib["y"]) for each in drawn.iter("text") if each.attrib.get("class") == "name"]
    assert len(places) == 4
    assert all(abs(a - b) >= 12 for at, a in enumerate(places) for b in places[:at])


def test_a_name_at_the_top_stands_over_the_middle_of_it() -> None:
    x, y = Axis("x", 0.0, 10.0), Axis("y", 0.0, 10.0)
    hill = [(0.0, 0.0), (4.0, 5.0), (5.0, 5.0), (6.0, 5.0), (10.0, 0.0)]
    drawn = ElementTree.fromstring(chart("t", x, y, [Marks("line", hill, "q", "running", at_top=True)]))
    name = next(each for each in drawn.iter("text") if each.attrib.get("class") == "name")
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    assert float(name.attrib["x"]) == pytest.approx(middle, abs=0.1)
    assert float(name.attrib["y"]) < TOP + (HEIGHT - TOP - BOTTOM) / 2
    early = [(0.0, 9.0), (10.0, 0.0)]  # a name that would begin left of the frame
    drawn = ElementTree.fromstring(chart("t", x, y, [Marks("line", early, "q", "running", at_top=True)]))
    name = next(each for each in drawn.iter("text") if each.attrib.get("class") == "name")
    assert float(name.attrib["x"]) > LEFT + 7 * 6
