"""The whole public tables, where they are at hand."""

import csv
import os
import re
from pathlib import Path

import pytest

from twophase.results import inconsistencies, read_points

SHARED = os.environ.get("TWOPHASE_SHARED")
pytestmark = pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED is not set")
SERVING = "data/measured/serving_points.csv"
SPEED = "data/cases/speed_cases.csv"


def table(name: str) -> tuple[Path, list[dict[str, str]]]:
    path = Path(str(SHARED)) / name
    with path.open(newline="", encoding="utf-8") as lines:
        return path, list(csv.DictReader(lines))


def test_every_serving_point() -> None:
    path, rows = table(SERVING)
    points = read_points(path)
    assert len(points) == len(rows)
    for point, row in zip(points, rows, strict=True):
        assert point.row == row["id"]
        assert point.ttft_s == pytest.approx(float(row["silicon_ttft_ms"]) / 1000)
        assert point.tpot_s == pytest.approx(float(row["silicon_tpot_ms"]) / 1000)
        assert (point.input_tokens, point.output_tokens) == (int(row["isl"]), int(row["osl"]))
        assert point.disaggregated == (row["mode"] == "disagg")
        clients = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
        ranks = int(row["attention_dp_size"] or 0) or 1
        own = int(row["batch_size"]) * ranks if row["batch_size"] else 0  # of one replica of many
        assert not clients or point.concurrency in (int(clients[1]), own)
        assert not clients or not own or int(clients[1]) % point.concurrency == 0
        assert inconsistencies(point) == ()


def test_every_speed_case() -> None:
    path, rows = table(SPEED)
    points = read_points(path)
    assert [point.row for point in points] == [row["case"] for row in rows]
    for point, row in zip(points, rows, strict=True):
        ttft = row["ttft_ms"]
        assert point.ttft_s == (pytest.approx(float(ttft) / 1000) if ttft else None)
        # Each rate lands in just one field, but for the tokens of a cache.
        rates = [point.output_tokens_per_s, point.output_tokens_per_s_per_gpu]
        rates += [point.output_tokens_per_s_per_user, point.total_tokens_per_s_per_gpu]
        found = [rate for rate in rates if rate is not None]
        kept = row["tok_s"] and "cache" not in row["tok_s_meaning"]
        assert found == ([float(row["tok_s"])] if kept else [])
        assert inconsistencies(point) == ()
