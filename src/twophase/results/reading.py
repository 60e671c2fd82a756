"""Read benchmark results of any form into points."""

import re
from collections.abc import Mapping
from pathlib import Path

from twophase.errors import InputError, nearest
from twophase.results import cells as cell
from twophase.results.columns import MEANINGS, Column, named, plan, rate_field
from twophase.results.point import RATES, TIMES, Point
from twophase.results.tables import Cells, Row, table_rows
from twophase.results.tools import flat

MEASURES = {*TIMES, *RATES, "tok_s"}
TEXTS = {"model", "gpu", "engine", "statistic", "notes"}
TRUTHS = {"batch_is_resident", "disaggregated"}
WAYS = {"tp", "pp", "dp", "ep", "gpus"}
LENGTHS = {"input_tokens", "output_tokens", "cached_tokens"}
RESIDENT = re.compile(r"gpt-fast|static batch|llama-bench", re.IGNORECASE)
POOLS = re.compile(r"\bP/D\b|\bNVL\d+ (?:prefill|decode)\b|GPUs?\), (?:prefill|decode)\b|\(\d+P\+\d+D")


def read_points(
    path: Path, columns: Mapping[str, str] | None = None, given: Mapping[str, str] | None = None
) -> list[Point]:
    """One point for each row of a CSV, TSV, JSON or JSONL file of benchmark results.

    columns: {a known name with its unit (ttft_ms, output_tokens_per_s ...): the file's COLUMN}, over what the
    names say. given: {a known name: value} for what the rows leave open. Of several statistics the mean
    counts, else the median. A time or rate of 0 is one that was not measured. InputError, in one line that
    names row and column, where a column is unknown or missing or a cell is not what its column says.
    """
    overrides = dict(columns or {})
    rows = [Row(row.where, flat(row.cells)) for row in table_rows(path)]
    plans: dict[tuple[str, ...], dict[str, list[Column]]] = {}
    for row in rows:
        names = tuple(row.cells)
        if names not in plans:
            plans[names] = plan(names, overrides)
    _check_columns(path, plans, overrides)
    extra = _given(given or {})
    return [_point(path, row, plans[tuple(row.cells)], extra) for row in rows]


def _check_columns(
    path: Path, plans: Mapping[tuple[str, ...], Mapping[str, list[Column]]], overrides: Mapping[str, str]
) -> None:
    names = list(dict.fromkeys(name for each in plans for name in each))
    for key, spelled in overrides.items():
        if spelled not in names:
            hint = nearest(spelled, names) or f"; its columns are {', '.join(names[:20])}"
            raise InputError(f"{path} has no column {spelled!r} for {key}{hint}")
    if not any(MEASURES & each.keys() for each in plans.values()):
        raise InputError(
            f"{path} has no column with a known time or rate (ttft_ms, tpot_ms, e2e_ms, output_tokens_per_s, "
            f"...) among {', '.join(names[:20])}; say which is which, as in ttft_ms=COLUMN"
        )


def _given(given: Mapping[str, str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, value in given.items():
        as_known = named(key)
        _fill(fields, as_known, value, f"{key}={value}")
    return fields


def _point(path: Path, row: Row, columns: Mapping[str, list[Column]], given: Mapping[str, object]) -> Point:
    where = f"{path}, {row.where}"
    fields: dict[str, object] = {}
    statistics = set()
    used = set()
    for field, candidates in columns.items():
        for each in candidates:
            used.add(each.name)
            value = row.cells.get(each.name)
            if not cell.is_empty(value) and field not in fields and field not in ("tok_s", "tok_s_meaning"):
                _fill(fields, each, value, f"{where}, column {each.name!r}")
                if field in TIMES and field in fields:
                    statistics.add(each.statistic)
    meaning = _tokens_a_second(fields, columns, row.cells, where)
    if meaning == "":
        used -= {"tok_s", "tok_s_meaning"}
    fields = {**given, **fields}
    _conclude(fields, statistics)
    fields["unknown"] = {
        name: str(value)
        for name, value in row.cells.items()
        if name not in used and isinstance(value, str | int | float) and value != ""
    }
    return Point(**{"row": row.where, **fields})  # type: ignore[arg-type]


def _fill(fields: dict[str, object], column: Column, value: object, where: str) -> None:
    """Set the column's field from a cell; nothing is set where the cell says that nothing is known."""
    field = column.field
    if field in TEXTS or field == "row":
        fields[field] = str(value).strip()
    elif field in WAYS:
        ways = cell.parallel(value, field)
        if ways is None:
            raise InputError(f"{where} is {value!r}; wanted is a whole number")
        if ways[1] is not None:
            fields[ways[0]] = ways[1]
    elif field == "weights":
        weights, kv = cell.formats(value)
        fields["weights"] = weights
        if kv:
            fields["kv"] = kv
    elif field == "kv":
        fields[field] = cell.formats(value)[0]
    elif field in TRUTHS:
        said = cell.truth(value)
        if said is None:
            raise InputError(f"{where} is {value!r}; wanted is true or false")
        fields[field] = said
    elif field == "concurrency":
        understood, clients = cell.concurrency(value)
        if not understood:
            raise InputError(f"{where} is {value!r}; wanted is a number of clients, or inf")
        if clients:
            fields[field] = clients
    else:
        _fill_number(fields, column, value, where)


def _fill_number(fields: dict[str, object], column: Column, value: object, where: str) -> None:
    if column.scale is None:
        raise InputError(f"{where} {_unit_wanted(column)}")
    found = cell.number(value, loose=column.field in LENGTHS)
    if found is None:
        raise InputError(f"{where} is {str(value)[:40]!r}; wanted is a number, finite and not negative")
    if found:
        fields[column.field] = found * column.scale


def _unit_wanted(column: Column) -> str:
    if column.field in TIMES:
        known = column.field.removesuffix("_s")
        return f"has no unit: name it with {known}_ms={column.name} or {known}_s={column.name}"
    return (
        f"doesn't say which tokens it counts: name it with output_tokens_per_s={column.name} "
        f"or total_tokens_per_s={column.name} (input and output) or one of them per GPU (_per_gpu)"
    )


def _tokens_a_second(
    fields: dict[str, object], columns: Mapping[str, list[Column]], cells: Cells, where: str
) -> str | None:
    """Set the rate that column tok_s holds, as tok_s_meaning says; the field, "" for one no field has."""
    name = next((each.name for each in columns.get("tok_s", ())), None)
    if name is None or cell.is_empty(cells.get(name)):
        return None
    saying = next((each.name for each in columns.get("tok_s_meaning", ())), None)
    said = str(cells.get(saying) or "") if saying else ""
    rate = Column(name, "output_tokens_per_s", scale=None)
    if not said:
        raise InputError(f"{where}, column {name!r} {_unit_wanted(rate)}")
    field = rate_field(said)
    if field is None:
        raise InputError(f"{where}, column {saying!r} is {said!r}; known are {MEANINGS}")
    if field:
        _fill_number(fields, Column(name, field), cells[name], f"{where}, column {name!r}")
    return field


def _conclude(fields: dict[str, object], statistics: set[str]) -> None:
    """What follows from the row's own words."""
    notes = str(fields.get("notes", ""))
    if "statistic" not in fields:
        stated = statistics - {""}
        if not stated:
            found = {"mean": r"\bmean\b", "median": r"\bmedians?\b|\bp50\b"}
            stated = {name for name, words in found.items() if re.search(words, notes, re.IGNORECASE)}
        fields["statistic"] = stated.pop() if len(stated) == 1 else "mixed" if stated else ""
    described = f"{fields.get('engine', '')} {notes}"
    if "batch_is_resident" not in fields:
        fields["batch_is_resident"] = fields.get("concurrency") == 1 or bool(RESIDENT.search(described))
    if POOLS.search(f"{fields.get('gpu', '')} {described}"):
        fields["disaggregated"] = True
    if fields.get("output_tokens") == 1:
        fields.pop("tpot_s", None)  # tools write 0 or nonsense where there is no second token
