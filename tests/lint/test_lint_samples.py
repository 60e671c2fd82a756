"""Small public tables with known faults: those rows are caught, and no right one is."""

from pathlib import Path

from twophase.lint.lint import Checked, lint
from twophase.lint.names import Models, folder_models
from twophase.lint.served import Sources
from twophase.results import read_points

DATA = Path(__file__).parents[1] / "data" / "lint"
SOURCES = Sources(Models(folder_models(DATA / "configs")))
SPLITWISE = {"ttft_ms": "prompt_time", "tpot_ms": "token_time", "e2e_ms": "e2e_time"}
STATIC = {"batch_is_resident": "true", "weights": "fp16"}


def rows_of(name: str) -> list[Checked]:
    return lint(read_points(DATA / name), SOURCES)


def kinds(own: Checked) -> set[str]:
    return {flag.kind for flag in own.flags}


def test_a_blog_beats_physics_at_one_and_ten_users_but_not_at_fifty() -> None:
    assert [own.impossible for own in rows_of("h100_blog.csv")] == [True, True, False]


def test_prompts_faster_than_arithmetic() -> None:
    """2 · 68.45e9 FLOPs for each of 64 · 512 tokens take two A100 7.2 s, two H100 2.3 s, not 0.8 and 0.4."""
    rows = lint(read_points(DATA / "splitwise.csv", SPLITWISE, STATIC), SOURCES)
    assert len(rows) == 18
    caught = [own.point for own in rows if own.impossible]
    assert [(each.tp, each.concurrency, each.gpu) for each in caught] == [
        (2, 64, "a100-80gb"),
        (2, 64, "h100-80gb"),
    ]


def test_attention_data_parallelism_recorded_as_tp_and_clients_that_wait() -> None:
    found = {own.point.row: own for own in rows_of("serving_points.csv")}
    assert len(found) == 8 and not any(own.why for own in found.values())
    flagged = {row for row, own in found.items() if own.flags}
    assert flagged == {row for row in found if "gb200" in row}
    (faster,) = (own for own in found.values() if own.impossible)
    assert "with data-parallel attention over 48 devices in place of TP 48" in faster.flags[0].says
    waiting = [own for own in found.values() if "gpt_oss" in own.point.row]
    assert len(waiting) == 3
    assert all("of 512 clients about" in own.notes[0] for own in waiting)
