"""Read benchmark results of any form into points."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from twophase.errors import InputError, nearest
from twophase.results import cells as cell
from twophase.results.columns import MEANINGS, Column, Columns, columns_of, named, rate_field
from twophase.results.point import RATES, TIMES, Point
from twophase.results.tables import Row, table_rows
from twophase.results.tools import flat_rows

MEASURES = {*TIMES, *RATES}
SCALARS = (str, int, float)
LENGTHS = {"input_tokens", "output_tokens", "cached_tokens"}
Filler = Callable[[dict[str, object], Column, object], None]
SAID = {
    "mean": re.compile(r"\bmean\b", re.IGNORECASE),
    "median": re.compile(r"\bmedians?\b|\bp50\b", re.IGNORECASE),
}
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
    rows = flat_rows(table_rows(path))
    tables: dict[tuple[str, ...], Columns] = {}
    for row in rows:
        names = tuple(row.cells)
        if names not in tables:
            tables[names] = columns_of(names, overrides)
    _check_columns(path, tables, overrides)
    extra = _given(given or {})
    return [_point(path, row, tables[tuple(row.cells)], extra) for row in rows]


def _check_columns(
    path: Path, tables: Mapping[tuple[str, ...], Columns], overrides: Mapping[str, str]
) -> None:
    names = list(dict.fromkeys(name for each in tables for name in each))
    for key, spelled in overrides.items():
        if spelled not in names:
            hint = nearest(spelled, names) or f"; its columns are {', '.join(names[:20])}"
            raise InputError(f"{path} has no column {spelled!r} for {key}{hint}")
    if not any(MEASURES & each.by_field.keys() or each.tok_s for each in tables.values()):
        raise InputError(
            f"{path} has no column with a known time or rate (ttft_ms, tpot_ms, e2e_ms, output_tokens_per_s, "
            f"...) among {', '.join(names[:20])}; say which is which, as in ttft_ms=COLUMN"
        )


def _given(given: Mapping[str, str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, value in given.items():
        as_known = named(key)
        if cell.is_empty(value):
            raise InputError(f"{key}={value}: the value says nothing")
        try:
            _filler(as_known.field)(fields, as_known, value)
        except InputError as error:
            raise InputError(f"{key}={value} {error}") from None
    return fields


def _point(path: Path, row: Row, columns: Columns, given: Mapping[str, object]) -> Point:
    fields: dict[str, object] = {}
    statistics = set()
    unused = list(columns.unknown)
    for field, candidates in columns.by_field.items():
        fill = _filler(field)
        for each in candidates:
            value = row.cells.get(each.name)
            if value == "" or field in fields or cell.is_empty(value):
                continue
            known = len(fields)
            try:
                fill(fields, each, value)
            except InputError as error:
                raise InputError(f"{path}, {row.where}, column {each.name!r} {error}") from None
            if len(fields) == known:
                unused.append(each.name)
            elif field in TIMES:
                statistics.add(each.statistic)
    if columns.tok_s:
        unused += _tokens_a_second(fields, columns.tok_s, row, path)
    fields = {**given, **fields}
    _conclude(fields, statistics)
    fields["unknown"] = {
        name: str(row.cells[name])
        for name in unused
        if isinstance(row.cells.get(name), SCALARS) and row.cells[name] != ""
    }
    return Point(**{"row": row.where, **fields})  # type: ignore[arg-type]


def _fill_text(fields: dict[str, object], column: Column, value: object) -> None:
    fields[column.field] = str(value).strip()


def _fill_ways(fields: dict[str, object], column: Column, value: object) -> None:
    ways = cell.parallel(str(value), column.field)
    if ways is None:
        raise InputError(f"is {_short(value)}; wanted is a whole number")
    if ways[1] is not None:
        fields[ways[0]] = ways[1]


def _fill_format(fields: dict[str, object], column: Column, value: object) -> None:
    fields[column.field], kv = cell.formats(str(value))
    if kv:
        fields["kv"] = kv


def _fill_truth(fields: dict[str, object], column: Column, value: object) -> None:
    said = cell.truth(str(value))
    if said is None:
        raise InputError(f"is {_short(value)}; wanted is true or false")
    fields[column.field] = said


def _fill_clients(fields: dict[str, object], column: Column, value: object) -> None:
    understood, clients = cell.concurrency(str(value))
    if not understood:
        raise InputError(f"is {_short(value)}; wanted is a number of clients, or inf")
    if clients:
        fields[column.field] = clients


def _fill_number(fields: dict[str, object], column: Column, value: object) -> None:
    if column.scale is None:
        raise InputError(_unit_wanted(column))
    found = cell.number(value, loose=column.field in LENGTHS)
    if found is None:
        raise InputError(f"is {_short(value)}; wanted is a number, finite and not negative")
    if found:
        fields[column.field] = found * column.scale


FILLERS: dict[str, Filler] = {
    **dict.fromkeys(("row", "model", "gpu", "engine", "statistic", "notes"), _fill_text),
    **dict.fromkeys(("tp", "pp", "dp", "ep", "gpus"), _fill_ways),
    **dict.fromkeys(("weights", "kv"), _fill_format),
    **dict.fromkeys(("batch_is_resident", "disaggregated"), _fill_truth),
    "concurrency": _fill_clients,
}


def _filler(field: str) -> Filler:
    return FILLERS.get(field, _fill_number)


def _short(value: object) -> str:
    return repr(str(value)[:40])


def _unit_wanted(column: Column) -> str:
    if column.field in TIMES:
        known = column.field.removesuffix("_s")
        return f"has no unit: name it with {known}_ms={column.name} or {known}_s={column.name}"
    return (
        f"doesn't say which tokens it counts: name it with output_tokens_per_s={column.name} "
        f"or total_tokens_per_s={column.name} (input and output), or one of them per GPU (_per_gpu)"
    )


def _tokens_a_second(
    fields: dict[str, object], names: tuple[str, str], row: Row, path: Path
) -> tuple[str, ...]:
    """Set the rate that column tok_s holds, as tok_s_meaning says. Returns the two where no field has it."""
    name, saying = names
    if cell.is_empty(row.cells.get(name)):
        return ()
    said = str(row.cells.get(saying) or "")
    where = f"{path}, {row.where}, column"
    if not said:
        raise InputError(f"{where} {name!r} {_unit_wanted(Column(name, 'output_tokens_per_s'))}")
    field = rate_field(said)
    if field is None:
        raise InputError(f"{where} {saying!r} is {_short(said)}; known are {MEANINGS}")
    if not field:
        return names
    try:
        _fill_number(fields, Column(name, field), row.cells[name])
    except InputError as error:
        raise InputError(f"{where} {name!r} {error}") from None
    return ()


def _conclude(fields: dict[str, object], statistics: set[str]) -> None:
    """What follows from the row's own words."""
    notes = str(fields.get("notes", ""))
    if "statistic" not in fields:
        stated = statistics - {""}
        if not stated:
            stated = {name for name, words in SAID.items() if notes and words.search(notes)}
        fields["statistic"] = stated.pop() if len(stated) == 1 else "mixed" if stated else ""
    described = f"{fields.get('engine', '')} {notes}"
    if "batch_is_resident" not in fields:
        fields["batch_is_resident"] = fields.get("concurrency") == 1 or bool(RESIDENT.search(described))
    if POOLS.search(f"{fields.get('gpu', '')} {described}"):
        fields["disaggregated"] = True
    if fields.get("output_tokens") == 1:
        fields.pop("tpot_s", None)  # tools write 0 or nonsense where there is no second token
