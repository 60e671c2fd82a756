"""The live view: a few lines a window, and how figures went; the text where little is known."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "counters"))

from counter_pages import of_engine, reading

from twophase.report.counters import plain
from twophase.report.counters_live import sparkline, view


def test_bars_from_zero_to_the_most() -> None:
    assert sparkline([0, 1, 2, None, 4]) == "▁▃▅ █"
    assert sparkline([None, 0]) == " ▁" and sparkline([]) == ""


def test_the_view_has_the_best_share_and_the_past() -> None:
    one, other = [of_engine("sglang")], [of_engine("tgi")]
    text = view([one, other, one], "waiting").plain
    assert "38% prefill (engine)" in text and "500/s" in text and text.endswith("waiting")
    assert "▁" not in text and "███" in text  # 0.375 each time: all bars are the most
    assert len(text.splitlines()) <= 12
    assert view([], "waiting").plain == "waiting"


def test_text_where_little_is_known() -> None:
    page = "vllm:generation_tokens_total {}\n"
    text = plain([reading(page.format(1), page.format(11), None)])
    assert text.startswith("vLLM  a window of unknown length\n")
    assert "do not tell" in text and "--gpu NAME estimates it" in text and "--window SECONDS" in text
    assert "None" not in text and "nan" not in text
