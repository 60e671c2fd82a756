"""The lint over whole public tables, where the folder of shared data is at hand."""

import os
from pathlib import Path

import pytest

from twophase.lint.lint import Checked, lint
from twophase.lint.names import Models, folder_models
from twophase.lint.served import Sources
from twophase.results import read_points

SHARED = os.environ.get("TWOPHASE_SHARED")
pytestmark = pytest.mark.skipif(SHARED is None, reason="TWOPHASE_SHARED is not set")
DATA = Path(SHARED or ".") / "data"
SPLITWISE = {"ttft_ms": "prompt_time", "tpot_ms": "token_time", "e2e_ms": "e2e_time"}


def checked(name: str, columns: dict[str, str] | None = None, **given: str) -> list[Checked]:
    sources = Sources(Models(folder_models(DATA / "configs")))
    return lint(read_points(DATA / name, columns, given), sources)


def test_no_published_speed_beats_its_floor() -> None:
    rows = checked("cases/speed_cases.csv")
    assert sum(bool(own.quantities) for own in rows) >= 60
    assert [own.point.row for own in rows if own.flags] == []


def test_of_serving_points_only_those_with_a_wrong_label_are_flagged() -> None:
    rows = checked("measured/serving_points.csv")
    assert len(rows) == 2763 and not any(own.why for own in rows)
    flagged = [own for own in rows if own.flags]
    assert sum("gb200" in own.point.row for own in flagged) >= 18
    for own in flagged:
        served = own.served
        assert served is not None
        # a TP that no engine can share, or wider than a node: data-parallel attention recorded as TP
        heads = {"deepseek-ai/DeepSeek-R1": 128, "Qwen/Qwen3.5-397B-A17B": 32}[served.model]
        assert heads % served.decode.own.plan.tp or served.decode.own.plan.tp == 32, own.point.row
    waiting = [own for own in rows if "gpt_oss_120b_h100" in own.point.row and own.point.concurrency == 512]
    assert waiting and all("of 512 clients about" in own.notes[0] for own in waiting)


def test_splitwise_prompts_beyond_peak() -> None:
    rows = checked("measured/splitwise/perf_model.csv", SPLITWISE, batch_is_resident="true", weights="fp16")
    caught = [own.point for own in rows if own.impossible]
    assert len(caught) == 15
    assert {(each.model, each.tp, each.input_tokens, each.concurrency) for each in caught} == {
        ("llama2-70b", 2, 512, 64)
    }
