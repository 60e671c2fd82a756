"""The rows of a trace's file as columns of raw values, each row with its place, whatever its format."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from twophase.errors import InputError, damaged


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns by name in lower case, equally long; None or "" where a row lacks a value."""

    columns: Mapping[str, Sequence[Any]]
    places: Sequence[int]
    unit: str = "line"  # of places
    no_objects: frozenset[int] = frozenset()  # rows, from 0, of JSON that hold something else

    def first_of(self, names: Iterable[str]) -> tuple[str, Sequence[Any]] | None:
        """The first of these columns that is there."""
        return next(((name, self.columns[name]) for name in names if name in self.columns), None)


def read_rows(path: Path, most: int | None) -> Rows:
    """By the file's ending: Parquet, a JSON object on each line, else CSV with a head."""
    if path.suffix == ".parquet":
        return parquet_rows(path, most)
    with damaged(path), path.open(newline="", encoding="utf-8-sig") as file:
        if path.suffix in (".jsonl", ".json", ".ndjson"):
            return json_rows(file, most)
        return csv_rows(file, most)


def csv_rows(file: Iterable[str], most: int | None) -> Rows:
    reader = csv.reader(file)
    rows, places = [], []
    try:
        names = [name.strip().lower() for name in next(reader, [])]
        for row in islice(filter(None, reader), most):
            rows.append(row if len(row) == len(names) else [*row, *[""] * len(names)][: len(names)])
            places.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
    columns: Iterable[Sequence[str]] = zip(*rows, strict=True) if rows else ([] for _ in names)
    return Rows(dict(zip(names, columns, strict=True)), places)


def json_rows(file: Iterable[str], most: int | None) -> Rows:
    objects: list[dict[str, Any]] = []
    places, others = [], []
    for number, line in islice(_lines(file), most):
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            others.append(len(objects))
            found = {}
        objects.append(found)
        places.append(number)
    names = dict.fromkeys(name for each in objects for name in each)
    columns = {name.strip().lower(): [each.get(name) for each in objects] for name in names}
    return Rows(columns, places, no_objects=frozenset(others))


def _lines(file: Iterable[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(file, 1) if line.strip())


def parquet_rows(path: Path, most: int | None) -> Rows:
    if not os.path.isfile(path):  # Path's own raises where a name is too long
        raise InputError(f"{path} is not there")
    try:
        import polars
    except ModuleNotFoundError:
        raise InputError(
            f"{path}: Parquet needs polars: install the extra meter (pip install '.[meter]' in a clone)"
        ) from None
    try:
        table = polars.read_parquet(path, n_rows=most)
    except polars.exceptions.PolarsError as error:
        raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from None
    columns = {name.strip().lower(): table[name].to_list() for name in table.columns}
    return Rows(columns, range(1, len(table) + 1), "row")
