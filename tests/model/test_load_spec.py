"""Models by name or by path, and what is said where there is none."""

import json
from pathlib import Path

import pytest

from twophase.errors import InputError
from twophase.model.catalogue import catalogue, load_spec


def test_the_textbooks_models() -> None:
    small, large = load_spec("llama-3-8b"), load_spec("llama-3-70b")
    assert (small.name, large.name) == ("Llama-3-8B", "Llama-3-70B")
    assert (len(small.layers), len(large.layers), small.context_length) == (32, 80, 8192)


def test_any_case_of_letters() -> None:
    assert load_spec("Llama-3-8B") == load_spec("llama-3-8b")


@pytest.mark.parametrize("name", catalogue())
def test_every_entry_reads_and_names_its_source(name: str) -> None:
    entry = catalogue()[name]
    assert entry["title"] and "/" in entry["source"] and name == name.lower()
    assert load_spec(name).name == entry["title"]


def test_gemma_27b_scales_by_its_own_scalar() -> None:
    attention = load_spec("gemma-3-27b").layers[0].attention
    assert (attention.head_dim, attention.scale) == (128, pytest.approx(168**-0.5))


def test_a_path(tmp_path: Path) -> None:
    entry = catalogue()["qwen3-0.6b"]
    (tmp_path / "config.json").write_text(json.dumps(entry))
    assert load_spec(str(tmp_path)).layers == load_spec("qwen3-0.6b").layers
    assert load_spec(str(tmp_path / "config.json")).layers == load_spec("qwen3-0.6b").layers


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("llama-3-9b", "did you mean llama-3-8b"),
        ("LLAMA3-8b", "did you mean llama-3-8b"),
        ("zzzzzz", "; known are llama-2-7b, "),
        ("", "known are"),
        ("./nowhere", "./nowhere does not exist"),
        ("nowhere/config.json", "does not exist"),
        ("nowhere.gguf", "nowhere.gguf can't be read"),
        ("x" * 5000, "known are"),
    ],
)
def test_what_does_not_exist(name: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        load_spec(name)
    assert says in str(error.value)
