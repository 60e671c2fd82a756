"""Tables written without a library are what another's reader finds in them."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.meter.parquet import Kind, write_parquet

COLUMNS: dict[str, Kind] = {"count": "integer", "seconds": "number", "word": "text"}
ROW = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
)


def read_back(groups: list[list[list[object]]], columns: dict[str, Kind] = COLUMNS) -> pl.DataFrame:
    with TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        write_parquet(path, columns, groups)
        return pl.read_parquet(path)


@given(st.lists(st.lists(ROW, min_size=1, max_size=40), max_size=4))
def test_every_value_comes_back(groups: list[list[tuple[object, ...]]]) -> None:
    found = read_back([[list(column) for column in zip(*group, strict=True)] for group in groups])
    assert found.rows() == [row for group in groups for row in group]
    assert found.schema == {"count": pl.Int64, "seconds": pl.Float64, "word": pl.String}


@pytest.mark.parametrize("rows", [127, 128, 16_384, 70_001])
def test_lengths_that_need_more_bytes(rows: int) -> None:
    numbers = [None if at % 3 == 0 else at * 0.5 for at in range(rows)]
    found = read_back([[list(range(rows)), numbers, ["content"] * rows]])
    assert found["count"].to_list() == list(range(rows))
    assert found["seconds"].to_list() == numbers
    assert found["word"].to_list() == ["content"] * rows


def test_many_columns_and_many_groups() -> None:
    columns: dict[str, Kind] = {f"column {at}": "integer" for at in range(40)}
    groups = [[[group, column] for column in range(40)] for group in range(20)]
    found = read_back(groups, columns)
    assert found.columns == list(columns)
    assert found["column 39"].to_list() == [value for group in range(20) for value in (group, 39)]


def test_what_a_letter_can_not_be() -> None:
    """Half of a surrogate pair, as a server's broken JSON may leave it."""
    found = read_back([[[1], [0.5], ["a\ud800b"]]])
    assert found["word"].to_list() == ["a?b"]
