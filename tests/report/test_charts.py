"""What the charts plot, against points worked out by hand."""

from itertools import combinations
from typing import Any

import pytest
from machine import CHAT, CPU, LAPTOP, Machine, diagnosis

from twophase.report import charts
from twophase.report.vega import HEIGHT, LETTER, WIDTH, across, decades


def layers(spec: dict[str, Any], mark: str) -> list[list[dict[str, Any]]]:
    """The data of each layer of one kind of mark."""
    return [layer["data"]["values"] for layer in spec["layer"] if layer.get("mark", {}).get("type") == mark]


def points(rows: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(row["x"], row["y"]) for row in rows]


def test_roofline_of_a_machine_at_its_roof() -> None:
    """No KV cache, all at the floor: prefill of n tokens has intensity n, decode of batch B has B."""
    result = diagnosis(CHAT, 2000, 500)
    spec = charts.roofline(result.roofs, result.prefill, result.decode)
    (roof,) = layers(spec, "line")
    assert points(roof)[1] == (100, 100e12)
    for x, y in points(roof)[:2]:
        assert y == pytest.approx(x * 1e12)
    prefill, decode = layers(spec, "point")
    assert points(prefill)[0] == pytest.approx((16, 16e12))
    assert points(prefill)[-1] == pytest.approx((2048, 100e12))
    assert points(decode)[-1] == pytest.approx((16, 16e12))


def test_ttft_curve_in_milliseconds() -> None:
    result = diagnosis(CHAT, 2000, 500)
    spec = charts.ttft_curve(result.prefill, result.ttft_fit)
    floor, fitted = layers(spec, "line")
    assert points(floor)[-1] == pytest.approx((2048, 204.8))
    assert points(fitted)[0] == pytest.approx((128, 12.8))  # prompts that memory binds are not in the fit
    (measured,) = layers(spec, "point")
    assert points(measured)[0] == pytest.approx((16, 10))


def test_bend_is_marked_where_the_fit_has_it() -> None:
    result = diagnosis(LAPTOP, 2000, 500)
    spec = charts.ttft_curve(result.prefill, result.ttft_fit)
    (rule,) = [layer for layer in spec["layer"] if "layer" in layer]
    assert rule["data"]["values"][0]["x"] == result.ttft_fit.bend_prompt_tokens
    assert rule["layer"][1]["mark"]["text"] == "bends at 541"


@pytest.mark.parametrize("machine", [CHAT, CPU, LAPTOP])
def test_labels_do_not_lie_on_one_another(machine: Machine) -> None:
    result = diagnosis(machine, 2000, 500)
    spec = charts.roofline(result.roofs, result.prefill, result.decode)
    x, y = (spec["layer"][0]["encoding"][name]["scale"]["domain"] for name in ("x", "y"))
    beside, below = [rows for rows in layers(spec, "text") if rows and "text" in rows[0]]
    boxes = []
    for rows, is_beside in ((beside, True), (below, False)):
        for row in rows:
            wide, right = LETTER * len(row["text"]), across(row["x"], x)
            up = across(row["y"], y) * HEIGHT / WIDTH
            boxes.append((right + 8 if is_beside else right - wide / 2, up - (0 if is_beside else 15), wide))
    for (left, up, wide), (other_left, other_up, other_wide) in combinations(boxes, 2):
        apart = left >= other_left + other_wide or other_left >= left + wide
        assert apart or abs(up - other_up) >= 11
    assert {"batch 1", "batch 16"} <= {row["text"] for row in beside}
    assert "2,048" in {row["text"] for row in below}


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.5, 30, [0.5, 1, 2, 5, 10, 20]),
        (1e3, 1e7, [1e3, 1e4, 1e5, 1e6, 1e7]),
    ],
)
def test_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert decades(low, high) == pytest.approx(ticks)
