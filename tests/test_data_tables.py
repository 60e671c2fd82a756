"""A table alone is what tomllib reads of it in the whole file."""

import tomllib
from importlib.resources import files

import pytest

from twophase.data_tables import table_of

FILES = {
    "accelerators": files("twophase.hardware").joinpath("accelerators.toml").read_text("utf-8"),
    **{
        each.name: each.read_text("utf-8")
        for each in files("twophase.model").joinpath("published").iterdir()
        if each.name.endswith(".toml")
    },
    "by hand": '[a]\nx = 1\n[a.b]\ny = "[c]"\n["c.d"]\nz = [1,\n2]\n["c.d".e]\nf = {g = 2}\n[last]\n',
}


@pytest.mark.parametrize("file", FILES)
def test_each_table_is_read_as_in_the_whole(file: str) -> None:
    whole = tomllib.loads(FILES[file])
    assert whole
    for name, table in whole.items():
        assert table_of(FILES[file], name) == table


def test_what_is_not_there_is_none() -> None:
    assert [table_of(FILES["by hand"], name) for name in ("b", "c", "a.b", "")] == [None] * 4
