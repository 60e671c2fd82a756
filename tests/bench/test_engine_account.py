"""The account of bench/engine.py against published numbers, and its shares against hand counts."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

import account
from table import CELLS, OURS, Cell, Figure, markdown, put_between_markers, share_of

from twophase.cost.deployment import Deployment
from twophase.cost.pass_ import Pass, Span
from twophase.cost.price import price_of
from twophase.model.catalogue import load_spec


def test_the_shape_has_the_published_number_of_parameters() -> None:
    assert account.PARAMETERS == 596_049_920  # Qwen/Qwen3-0.6B, embeddings counted once
    assert account.KV_ITEMS * 2 == 114_688


@pytest.mark.parametrize("tokens", [128, 2048])
def test_prefill_flops_are_those_of_the_cost_model(tokens: int) -> None:
    flops, _ = price_of(Deployment(load_spec("qwen3-0.6b")))(Pass((Span(0, tokens, 0),)))
    assert account.prefill_flops(tokens) == pytest.approx(flops, rel=0.01)


def test_decode_bytes_are_those_of_the_cost_model() -> None:
    _, bytes_ = price_of(Deployment(load_spec("qwen3-0.6b")))(Pass(tuple(Span(i, 1, 2048) for i in range(4))))
    mine = account.decode_bytes(4, 2048, 2 * account.PARAMETERS, 2)
    assert mine == pytest.approx(bytes_, rel=0.01)


def test_a_batch_is_bound_by_whatever_has_the_larger_share() -> None:
    cell = Cell("decode", 16, 128)
    rounds = [Figure(cell, seconds, 4e9, 1e9, 100e9, 20e9) for seconds in (0.1, 0.2, 0.4)]
    assert share_of(rounds, cell) == pytest.approx(0.25)  # 1e9 / 0.2 / 20e9; of FLOPs it is 0.2
    assert cell.value(0.2) == pytest.approx(80)  # tokens/s of 16 sequences


def test_ratios_say_how_much_faster_ours_is() -> None:
    def engine(name: str, seconds: float) -> dict[str, object]:
        return {"figures": [Figure(cell, seconds, 1e9, 1e9, 1e11, 1e10) for cell in CELLS], "settings": name}

    both = {OURS: engine("", 0.1), "slower": engine("half as fast", 0.2)}
    row = next(line for line in markdown({"bf16": both}, "", 1).splitlines() if f"{OURS} ÷" in line)
    assert row == f"| {OURS} ÷ slower |{' 2.00 |' * len(CELLS)}"


def test_tables_replace_what_lay_between_the_markers() -> None:
    begin, end = "<!-- bench/engine.py -->", "<!-- end of bench/engine.py -->"
    assert put_between_markers(f"a\n{begin}\nold\n{end}\nb", "new") == f"a\n{begin}\n\nnew\n{end}\nb"
