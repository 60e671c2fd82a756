"""Pieces of the meter's terminal reports on narrow terminals."""

from io import StringIO

from rich.console import Console

from twophase.report.bench_terminal import show, table


def test_a_narrow_terminal_wraps_words_and_keeps_numbers_whole() -> None:
    out = StringIO()
    console = Console(file=out, width=40, highlight=False, force_terminal=True, color_system=None)
    row = ("a name of many words, longer than forty cells are", "1,234,567 ms", "98.7%")
    show([table(("", "TTFT", "kept"), [row])], console)
    text = out.getvalue()
    assert "…" not in text
    assert "1,234,567 ms  98.7%" in text
    assert all(word in text for word in row[0].split())
    assert max(map(len, text.splitlines())) <= 40
