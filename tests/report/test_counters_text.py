"""The live view: a few lines a window, and how figures went; the text where little is known."""

import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "counters"))

from counter_pages import PAGES, of_engine, page, reading

from twophase.counters.reading import Beside, read_pair
from twophase.errors import InputError
from twophase.report.counters import plain
from twophase.report.counters_json import to_json
from twophase.report.counters_live import sparkline, view

EXTREMES = ("0", "-1", "1e308", "NaN", "+Inf", "-Inf", "1e-320", "5", "1e17", "-0.0", "1e200")


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
    tokens = "vllm:generation_tokens_total {}\n"
    text = plain([reading(tokens.format(1), tokens.format(11), None)])
    assert text.startswith("vLLM  a window of unknown length\n")
    assert "do not tell" in text and "--gpu NAME estimates it" in text and "--window SECONDS" in text
    assert "None" not in text and "nan" not in text


def damaged(text: str, chance: random.Random) -> str:
    """Values no counter has, lines that are missing or cut."""
    rate = chance.choice([0, 0.02, 0.2, 0.6])
    made = []
    for line in text.splitlines():
        fate = chance.random() / rate if rate and not line.startswith("#") else 1.0
        if fate < 0.6:
            made.append(f"{line.rsplit(' ', 1)[0]} {chance.choice(EXTREMES)}")
        elif fate < 0.8:
            made.append(line[: chance.randrange(len(line))])
        elif fate >= 1:
            made.append(line)
    return "\n".join(made)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tgi", "llamacpp", "lmdeploy", "dynamo"])
@pytest.mark.parametrize("seed", range(25))
def test_whatever_a_page_says_there_is_a_line_or_a_document(engine: str, seed: int) -> None:
    chance = random.Random(seed)
    order = chance.choice([(0, 1), (1, 0), (0, 0)])
    first, second = (damaged((PAGES / f"{engine}_t{at}.txt").read_text(), chance) for at in order)
    try:
        seconds = chance.choice([None, 300, 1e-3, 1e9])
        found = read_pair(page(first), page(second), seconds, Beside())
    except InputError as error:
        assert "\n" not in str(error)
        return
    document = json.loads(to_json(found))  # which refuses what is not finite
    assert document["dominant"] in ("prefill", "decode", "neither", "unknown")
    share = document["phase_share"]
    low, mid, high = (share["prefill"][each] for each in ("low", "mid", "high")) if share else (0, 0, 0)
    assert 0 <= low <= mid <= high <= 1
    assert plain(found) and view([found, found], "").plain
