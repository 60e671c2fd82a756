"""The page: self-contained, safe with hostile names, and with every number on it."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from machine import BATCHES, CHAT, CONTEXTS, CPU, LAPTOP, PROMPTS, READER, diagnosis

from twophase.advise.diagnosis import Diagnosis
from twophase.errors import InputError
from twophase.report.diagnosis_html import page

HOSTILE = "<script>alert('&')</script> $model"


class Reader(HTMLParser):
    """Text in reading order, tables as rows of cells, and whether every tag closes."""

    VOID = frozenset({"meta", "br", "line", "path", "rect", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open or "script" in self.open:
            return
        self.text.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def read(result: Diagnosis) -> Reader:
    reader = Reader()
    reader.feed(page(result))
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def chat() -> Reader:
    return read(diagnosis(CHAT, 2000, 500))


def test_hand_worked_numbers(chat: Reader) -> None:
    """2048 tokens at 0.1 ms; passes of 10 ms; a request of 200 ms and 499 passes; every one at its floor."""
    assert ["2,048", "205", "205", "1.00×", "100%", "5%", "10,000", "compute"] in chat.rows
    assert ["1", "2,048", "10.0", "10.0", "1.00×", "1%", "100%", "100", "memory"] in chat.rows
    assert ["16", "512", "10.0", "10.0", "1.00×", "16%", "100%", "1,600", "memory"] in chat.rows
    assert ["prefill", "200", "4%", "200", "1.00×"] in chat.rows
    assert ["decode", "4,990", "96%", "4,990", "1.00×"] in chat.rows
    text = "".join(chat.text)
    for shown in ("100 TFLOP/s", "1.00 TB/s", "100 FLOP/byte", "10.0 GB", "5.19 s", "3.47×", "1.02×"):
        assert shown in text, shown


@pytest.mark.parametrize("request_", [(LAPTOP, 2000, 500), (CPU, 30_000, 200), (READER, 16, 2)])
def test_every_row_and_lever_is_there(request_: tuple) -> None:
    result = diagnosis(*request_)
    reader = read(result)
    assert [row[0] for row in reader.rows if row[-1] in {"compute", "memory"} and len(row) == 8] == [
        f"{tokens:,}" for tokens in PROMPTS
    ]
    assert [row[:2] for row in reader.rows if row[-1] in {"compute", "memory"} and len(row) == 9] == [
        *(["1", f"{context:,}"] for context in CONTEXTS),
        *([f"{batch}", "512"] for batch in BATCHES if batch > 1),
    ]
    text = "".join(reader.text)
    for each in result.verdict.advice:
        assert each.change in text
        assert each.why in text
    assert result.verdict.summary in text


def test_the_verdict_comes_first(chat: Reader) -> None:
    text = "".join(chat.text)
    head = text.index("Work on decode: memory bandwidth limits it")
    assert head < text.index("Decode takes 96%") < text.index("What would help") < text.index("Roofline")


def test_loads_nothing() -> None:
    html = page(diagnosis(LAPTOP, 2000, 500))
    assert "://" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", html)
    assert not re.search(r"<(script|link|img|iframe|object|embed|image|use)\b|@import|url\(", html)


def test_strings_from_outside_are_escaped() -> None:
    result = diagnosis(LAPTOP, 2000, 500, model=HOSTILE, weights="random", notes=(HOSTILE,))
    roofs = replace(result.roofs, cpu=HOSTILE, compute=HOSTILE)
    html = page(replace(result, roofs=roofs, weight_format=HOSTILE))
    assert "<script" not in html
    reader = Reader()
    reader.feed(html)
    assert "".join(reader.text).count(HOSTILE) == 6  # title, name, arithmetic, machine, format, note


def test_random_weights_are_said_beside_the_name() -> None:
    random = "".join(read(diagnosis(CPU, 2000, 500, model="qwen3-0.6b", weights="random")).text)
    assert len(re.findall(r"qwen3-0\.6b \(?random weights", random)) == random.count("qwen3-0.6b") == 2
    assert "random" not in "".join(read(diagnosis(CPU, 2000, 500)).text)


def test_charts_carry_their_labels(chat: Reader) -> None:
    text = chat.text
    for shown in ("FLOP/s", "Arithmetic intensity (FLOP/byte)", "TTFT (ms)", "Prompt (tokens)", "ITL (ms)"):
        assert shown in text, shown
    for shown in ("ridge 100 FLOP/byte", "batch 1", "batch 16", "2,048", "1.00 TB/s", "100 TFLOP/s"):
        assert shown in text, shown


def test_one_point_is_no_curve() -> None:
    result = diagnosis(CHAT, 2000, 500)
    text = "".join(read(replace(result, decode=result.decode[:1])).text)
    assert "ITL against" not in text
    assert "Roofline" in text


def test_missing_charts_extra_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(InputError, match=r"the extra charts"):
        page(diagnosis(CHAT, 2000, 500))
