"""The terminal's view: aligned, narrow, labelled, complete."""

import io
import re

import pytest
from machine import CHAT, CPU, LAPTOP, Machine, diagnosis
from rich.console import Console

from twophase.advise.diagnosis import Diagnosis
from twophase.report.diagnosis_text import BAR, render, two_phase_bar


def text(result: Diagnosis, width: int = 80, *, terminal: bool = False) -> str:
    stream = io.StringIO()
    colours = {"force_terminal": True, "color_system": "truecolor"} if terminal else {}
    render(result, Console(file=stream, width=width, **colours))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("case", [(LAPTOP, 2000, 500), (CPU, 30_000, 200), (CHAT, 1, 1)])
def test_fits_and_is_plain(width: int, case: tuple[Machine, int, int]) -> None:
    shown = text(diagnosis(*case), width)
    assert max(map(len, shown.splitlines())) <= min(width, 100)
    assert "\x1b" not in shown
    assert not re.search("[─│┌┐└┘━┃|]", shown)


def test_hand_worked_rows() -> None:
    lines = [line.split() for line in text(diagnosis(CHAT, 2000, 500)).splitlines()]
    assert ["2,048", "205", "205", "1.00×", "100%", "5%", "10,000", "compute"] in lines
    assert ["16", "512", "10.0", "10.0", "1.00×", "16%", "100%", "1,600", "memory"] in lines


def test_columns_are_aligned() -> None:
    """Every row of a table ends its numbers where the heading does."""
    lines = text(diagnosis(LAPTOP, 2000, 500)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("prompt"))
    ends = {line.index("compute") for line in lines[start + 2 : start + 10]}
    assert ends == {lines[start].index("bound by")}


def test_says_all_that_matters_with_units() -> None:
    shown = text(diagnosis(CHAT, 2000, 500, notes=("The bandwidth wandered.",)))
    for each in (
        *("100 TFLOP/s", "1.00 TB/s", "100 FLOP/byte", "10.0 GB of weights", "measured", "floor", "ms"),
        *("prefill 200 ms (4%)", "decode  4.99 s (96%)", "Work on decode: memory bandwidth limits it"),
        *("What would help", "3.47×  INT4 weights", "What would not", "- The bandwidth wandered."),
    ):
        assert each in shown, each


def test_random_weights_are_said_beside_the_name() -> None:
    shown = text(diagnosis(CPU, 2000, 500, model="qwen3-0.6b", weights="random"))
    assert shown.count("qwen3-0.6b (random weights)") == shown.count("qwen3-0.6b") == 1


def test_names_are_not_markup() -> None:
    assert "[red]boo[/red]" in text(diagnosis(CPU, 2000, 500, model="[red]boo[/red]"))


def test_colour_only_on_a_terminal() -> None:
    assert "\x1b[" in text(diagnosis(LAPTOP, 2000, 500), terminal=True)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("prefill", [0.0, 0.001, 0.3, 0.999, 1.0])
def test_bar_is_full_and_shows_both_phases(encoding: str, prefill: float) -> None:
    (first, _), (second, _), rest = two_phase_bar(prefill, 1 - prefill, encoding)
    assert len(first + second + rest) == BAR
    assert rest == ""
    assert bool(first) == (prefill > 0)
    assert bool(second) == (prefill < 1)
    assert (first + second).isascii() == (encoding == "ascii")
    if 0.01 < prefill < 0.99:
        assert abs(len(first) - BAR * prefill) <= 0.5
