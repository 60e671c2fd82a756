"""A file's rows with their named cells, whatever its form: CSV, TSV, JSON, JSONL."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from twophase.errors import InputError, damaged, require_regular

Cells = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Row:
    where: str  # "line 12", "benchmark 3"
    cells: Cells


def table_rows(path: Path) -> list[Row]:
    """All rows of a file; InputError in one line where it has none or is none of the forms."""
    require_regular(path)
    with damaged(path):
        text = path.read_text(encoding="utf-8-sig")
    if not text.strip():
        raise InputError(f"{path} is empty; wanted are benchmark results as CSV, TSV, JSON or JSONL")
    rows = _json_rows(path, text) if text.lstrip()[0] in "[{" else _csv_rows(path, text)
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def _csv_rows(path: Path, text: str) -> list[Row]:
    first = text.lstrip().splitlines()[0]
    delimiter = max(",\t;", key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    header: list[str] = []
    rows = []
    try:
        for cells in reader:
            if not any(cells):
                continue
            if not header:
                header = [name.strip() for name in cells]
                if header[0].lower() == "metric":
                    return _metric_rows(path, reader, header)
                _check_header(path, header)
            elif len(cells) > len(header):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells under {len(header)} columns"
                )
            else:
                rows.append(Row(f"line {reader.line_num}", dict(zip(header, cells, strict=False))))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from None
    return rows


def _check_header(path: Path, header: list[str]) -> None:
    twice = next((name for name, times in Counter(header).items() if name and times > 1), None)
    if twice:
        raise InputError(f"{path}: column {twice!r} stands twice")


def _metric_rows(path: Path, lines: Iterable[list[str]], header: list[str]) -> list[Row]:
    """aiperf's and genai-perf's CSV, a line a metric under "Metric,avg,..." and "Metric,Value": one row."""
    cells: dict[str, object] = {}
    for line in lines:
        if not any(line):
            continue
        if line[0].strip().lower() == "metric":
            header = [name.strip() for name in line]
        elif line[0].strip() == "Endpoint":  # the GPU telemetry behind the metrics
            break
        else:
            said = dict(zip([name.lower() for name in header], line, strict=False))
            statistic = next((name for name in ("value", "avg", "p50") if said.get(name)), None)
            if statistic:
                cells[line[0] if statistic == "value" else f"{statistic} {line[0]}"] = said[statistic]
    return [Row(path.name, cells)] if cells else []


def _json_rows(path: Path, text: str) -> list[Row]:
    try:
        whole = json.loads(text)
    except RecursionError:
        raise InputError(f"{path} is nested too deeply to be benchmark results") from None
    except ValueError as error:
        if "\n" not in text.strip():
            raise InputError(f"{path} is not JSON: {error}") from None
        return _jsonl_rows(path, text)
    if isinstance(whole, dict):
        return _object_rows(path, whole)
    return [_row(path, f"item {at}", each) for at, each in enumerate(whole, 1)]


def _jsonl_rows(path: Path, text: str) -> list[Row]:
    rows = []
    for at, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append(_row(path, f"line {at}", json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}, line {at} is not JSON: {error}") from None
    return rows


def _object_rows(path: Path, whole: dict[str, object]) -> list[Row]:
    """guidellm's benchmarks, the one list of objects that an object holds, or the object itself."""
    if "benchmarks" in whole:
        benchmarks = whole["benchmarks"]
        if not isinstance(benchmarks, list):
            raise InputError(f"{path}: benchmarks is not a list")
        rows = [_row(path, f"benchmark {at}", each) for at, each in enumerate(benchmarks, 1)]
        report = {name: value for name, value in whole.items() if name != "benchmarks"}
        return [Row(row.where, {**row.cells, "report": report}) for row in rows]
    lists = [value for value in whole.values() if isinstance(value, list) and value]
    lists = [value for value in lists if all(isinstance(each, dict) for each in value)]
    if len(whole) - len(lists) <= 1 and len(lists) == 1:
        return [_row(path, f"item {at}", each) for at, each in enumerate(lists[0], 1)]
    return [Row(path.name, whole)]


def _row(path: Path, where: str, item: object) -> Row:
    if not isinstance(item, dict):
        raise InputError(f"{path}, {where} is not an object of named values but {str(item)[:40]!r}")
    return Row(where, item)
