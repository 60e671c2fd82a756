"""The catalogue's entries against totals that others published."""

import csv
from pathlib import Path

import pytest

from twophase.errors import InputError
from twophase.model.catalogue import catalogue, load_spec
from twophase.model.counts import parameters

with (Path(__file__).parents[1] / "data" / "parameter_totals.csv").open() as file:
    PUBLISHED = {row["name"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", catalogue())
def test_an_entry_counts_as_published(name: str) -> None:
    published, spec = PUBLISHED[name], load_spec(name)
    own = parameters(spec)
    assert own.total == int(published["total"])
    if published["embedding"]:
        assert own.embedding == int(published["embedding"])
        assert spec.tied_embeddings == (published["tied"] == "true")


@pytest.mark.parametrize(
    "name", ["~nobody-of-this-name/config.json", "~nobody-of-this-name", "a\0b", "\0.gguf"]
)
def test_odd_paths_get_one_line(name: str) -> None:
    with pytest.raises(InputError) as error:
        load_spec(name)
    assert "\n" not in str(error.value)
