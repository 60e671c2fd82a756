"""Imports run one way between the rooms."""

import ast
from pathlib import Path

import pytest

import twophase

ROOT = Path(twophase.__file__).parent

BELOW = {
    "compile_cache": set(),
    "kernels": {"compile_cache"},
    "errors": set(),
    "data_tables": set(),
    "owners": set(),
    "records": set(),
    "ending": set(),
    "non_negative": set(),
    "units": set(),
    "model": {"data_tables", "errors"},
    "hardware": {"kernels", "data_tables", "errors"},
    "cost": {"model", "hardware", "errors"},
    "fit": {"model", "hardware", "cost", "errors"},
    "results": {"errors"},
    "counters": {"model", "hardware", "cost", "owners", "units", "errors"},
    "lint": {"results", "model", "hardware", "cost", "errors"},
    "workload": {"errors"},
    "scheduler": {"compile_cache", "cost", "records", "errors"},
    "engine": {"kernels", "model", "hardware", "cost", "scheduler", "records", "errors"},
    "calibration": {"model", "hardware", "cost", "errors"},
    "simulate": {
        *("model", "hardware", "cost", "calibration", "fit", "workload", "scheduler", "records", "errors"),
        *("compile_cache", "units"),
    },
    "server": {
        *("kernels", "model", "hardware", "cost", "fit", "calibration", "scheduler", "simulate", "engine"),
        *("records", "errors", "twophase"),
    },
    "advise": {
        *("model", "hardware", "cost", "calibration", "workload", "simulate", "records", "units", "errors"),
        "non_negative",
    },
    "meter": {
        *("model", "hardware", "cost", "workload", "owners", "records", "units", "errors", "ending"),
        *("non_negative", "twophase"),
    },
    "plan": {
        *("model", "hardware", "cost", "calibration", "fit", "workload", "scheduler", "simulate", "errors"),
        "twophase",
    },
    "report": {
        *("advise", "model", "hardware", "cost", "fit", "results", "lint", "meter", "simulate", "records"),
        *("calibration", "counters", "workload", "plan", "units", "errors", "twophase"),
    },
    "diagnose": {"kernels", "model", "hardware", "cost", "engine", "advise", "errors"},
    "cli": {
        *("kernels", "model", "hardware", "cost", "fit", "scheduler", "engine", "advise", "report"),
        *("results", "lint", "diagnose", "simulate", "server", "meter", "compile_cache", "records", "units"),
        *("calibration", "counters", "workload", "plan", "errors", "ending", "twophase"),
    },
    "twophase": set(),  # __init__.py itself, and what it defines
}


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "twophase" if parts == ("__init__",) else parts[0]


def imported(tree: ast.Module, package: list[str]) -> list[tuple[int, str]]:
    """(line, dotted name) of all that is imported from twophase, wherever it stands in the file."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{origin}.{alias.name}") for alias in node.names]
    return [(line, name) for line, name in found if name.split(".")[0] == "twophase"]


def crossings(path: Path, source: str) -> list[tuple[int, str]]:
    """(line, room) for each import from another room."""
    package = ["twophase", *path.relative_to(ROOT).parent.parts]
    rooms = {room_of(each) for each in ROOT.rglob("*.py")}
    found = []
    for line, name in imported(ast.parse(source), package):
        room = [*name.split("."), ""][1]
        found.append((line, room if room in rooms else "twophase"))
    return [(line, room) for line, room in found if room != room_of(path)]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path: Path) -> None:
    room = room_of(path)
    assert room in BELOW, f"{room} is a new room: say in BELOW what it may import"
    for line, other in crossings(path, path.read_text()):
        assert other in BELOW[room], f"{path}:{line}: {room} must not import {other}"


def test_there_is_no_way_round() -> None:
    """The table itself has no cycle."""
    left = dict(BELOW)
    while left:
        lowest = [room for room, below in left.items() if not below & left.keys()]
        assert lowest, f"a cycle among {sorted(left)}"
        for room in lowest:
            del left[room]


@pytest.mark.parametrize(
    ("source", "room"),
    [
        ("import twophase.cli", "cli"),
        ("from twophase.engine.weights import load", "engine"),
        ("from twophase import engine", "engine"),
        ("from ..cli import main", "cli"),
        ("def f():\n    from twophase.report import page", "report"),
        ("from twophase import __version__", "twophase"),
    ],
)
def test_every_form_of_import_is_seen(source: str, room: str) -> None:
    found = crossings(ROOT / "model" / "spec.py", source)
    assert [other for _, other in found] == [room]
    assert room not in BELOW["model"]
