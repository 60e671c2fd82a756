"""Models by name or by path, and what is said where there is none."""

import json
from pathlib import Path

import pytest

from twophase.errors import InputError
from twophase.model.catalogue import catalogue, load_spec
from twophase.model.mixers import LatentAttention


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
        ("zzzzzz", " are known, llama-3.1-8b, "),
        ("", " are known"),
        ("Qwen/Qwen3-9B", "a .gguf file or a name; did you mean qwen3-"),
        ("./nowhere", "./nowhere does not exist"),
        ("nowhere/config.json", "does not exist"),
        ("nowhere.gguf", "nowhere.gguf can't be read"),
        ("x" * 5000, " are known"),
    ],
)
def test_what_does_not_exist(name: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        load_spec(name)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name", ["~nobody-of-this-name/config.json", "~nobody-of-this-name", "a\0b", "\0.gguf"]
)
def test_odd_paths_get_one_line(name: str) -> None:
    with pytest.raises(InputError) as error:
        load_spec(name)
    assert "\n" not in str(error.value)


def test_null_and_like_of_an_entry() -> None:
    """Both have what config.json has: V2-Lite's q_lora_rank is null, R1's shape is V3's."""
    attention = load_spec("deepseek-v2-lite").layers[0].mixers[0]
    assert isinstance(attention, LatentAttention)
    assert attention.query_rank is None
    assert load_spec("deepseek-r1").layers == load_spec("deepseek-v3").layers
    assert load_spec("deepseek-r1").name == "DeepSeek-R1"


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("gemma-3-27b-it", "gemma-3-27b"),
        ("Llama 3.1 70B", "llama-3.1-70b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("Mistral-7B-Instruct-v0.1", "mistral-7b"),
    ],
)
def test_tunings_have_the_shape_of_their_base(asked: str, shape: str) -> None:
    assert load_spec(asked) == load_spec(shape)


@pytest.mark.parametrize("asked", ["Qwen/Qwen3-32B-AWQ", "acme/llama-3-8b", "llama-3-8b-fp8x", "-instruct"])
def test_what_may_be_another_network_or_format_is_not_guessed_at(asked: str) -> None:
    with pytest.raises(InputError):
        load_spec(asked)
