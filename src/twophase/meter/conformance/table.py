"""The suite's result as a table of plain text, and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from twophase.meter.conformance.judging import Verdict
from twophase.meter.conformance.scenario import Measured, Scenario

HEADINGS = ("scenario", "outcome", "ttft", "tpot", "tokens", "verdict")


def table(verdicts: Sequence[Verdict]) -> str:
    rows = [HEADINGS, *map(row, verdicts)]
    widths = [max(len(each[column]) for each in rows) for column in range(len(HEADINGS))]
    lines = [line(each, widths) for each in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], "", total(verdicts)])


def total(verdicts: Sequence[Verdict]) -> str:
    return f"{sum(each.passed for each in verdicts)}/{len(verdicts)} right"


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names and verdicts to the left, numbers to the right."""
    shown = [
        cell.rjust(width) if column in (2, 3, 4) else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(shown).rstrip()


def row(verdict: Verdict) -> tuple[str, ...]:
    said = verdict.measured or Measured("-", None, None, None)
    tokens = "-" if said.output_tokens is None else f"{said.output_tokens:g}"
    right = "ok" if verdict.passed else "WRONG: " + "; ".join(verdict.faults)
    return (
        verdict.scenario.name,
        said.outcome,
        milliseconds(said.ttft_s),
        milliseconds(said.tpot_s),
        tokens,
        right,
    )


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f} ms"


def listing(scenarios: Sequence[Scenario]) -> str:
    width = max(len(each.name) for each in scenarios)
    return "\n".join(f"{each.name.ljust(width)}  {each.about}" for each in scenarios)


def expected(scenario: Scenario) -> dict[str, object]:
    truth = scenario.truth
    if truth.outcomes[0] != "finished":
        return {"outcome": truth.outcomes[0]}
    return {
        "outcome": "finished",
        "ttft_s": round(truth.ttft_s, 6),
        "tpot_s": round(truth.tpot_s, 6),
        "output_tokens": truth.output_tokens[0],
    }


def listing_json(scenarios: Sequence[Scenario]) -> str:
    rows = [{"name": each.name, "about": each.about, "expected": expected(each)} for each in scenarios]
    return json.dumps({"scenarios": rows}, indent=2)


def to_json(verdicts: Sequence[Verdict]) -> str:
    rows = [
        {
            "name": each.scenario.name,
            "passed": each.passed,
            "wrong": list(each.faults),
            "measured": None if each.measured is None else asdict(each.measured),
            "expected": expected(each.scenario),
        }
        for each in verdicts
    ]
    passed = sum(each.passed for each in verdicts)
    return json.dumps({"passed": passed, "scenarios_run": len(verdicts), "scenarios": rows}, indent=2)


def measured_json(measured: Measured) -> str:
    return json.dumps(asdict(measured))
