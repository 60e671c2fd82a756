"""The catalogue's entries against counts and sizes that others published."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from twophase.model.catalogue import catalogue, load_model, load_spec
from twophase.model.counts import parameters
from twophase.model.stored import weights_bytes

with (Path(__file__).parents[1] / "data" / "parameter_totals.csv").open() as file:
    PUBLISHED = {row["name"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", catalogue())
def test_an_entry_counts_as_published(name: str) -> None:
    published, model = PUBLISHED[name], load_model(name)
    own = parameters(model.spec)
    if "e" in published["total"]:  # a figure of three digits is all that there is
        assert own.total == pytest.approx(float(published["total"]), rel=0.01)
        return
    assert own.total == int(published["total"])
    if published["active"]:
        assert own.active == int(published["active"])
        assert own.active_without_embedding == int(published["active_without_embedding"])
    if published["embedding"]:
        # ours has learned positions and per-layer tables besides
        assert own.embedding >= int(published["embedding"])
        assert model.spec.tied_embeddings == (published["tied"] == "true")
    if published["vision"]:
        assert model.vision is not None
        assert model.vision.parameters == int(published["vision"])


def test_every_entry_is_held_against_something() -> None:
    assert set(PUBLISHED) == set(catalogue())


def test_no_name_stands_for_two_models() -> None:
    names = [
        each.lower()
        for name, entry in catalogue().items()
        for each in (name, entry["source"], *entry.get("also", ()))
    ]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("gpt-oss-120b", 60.8 * 2**30),  # checkpoint sizes of the gpt-oss model card
        ("gpt-oss-20b", 12.8 * 2**30),
        ("kimi-k2.5", 595e9),  # its repository, with a vision tower of 0.9 GB
        ("minimax-m2.5", 230e9),
        ("qwen3-32b", 65.5e9),
        ("bloom-176b", 352e9),  # two bytes for each of 176 247 271 424 parameters
    ],
)
def test_checkpoints_weigh_what_is_published(name: str, published: float) -> None:
    model = load_model(name)
    assert weights_bytes(model.spec, model.storage) == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(
    ("name", "smaller"),
    [
        ("qwen3-32b-fp8", "qwen3-32b"),
        ("glm-5.1-nvfp4", "glm-5.1-fp8"),
        ("glm-5.1-fp8", "glm-5.1"),
        ("deepseek-v4-flash", "deepseek-v4-flash-fp8"),
        ("qwen3.6-27b-nvfp4", "qwen3.6-27b"),
    ],
)
def test_a_quantised_entry_is_the_same_network_in_fewer_bytes(name: str, smaller: str) -> None:
    small, large = load_model(name), load_model(smaller)
    assert parameters(small.spec) == parameters(large.spec)
    assert weights_bytes(small.spec, small.storage) < 0.8 * weights_bytes(large.spec, large.storage)


def test_one_family_is_parsed_for_one_model() -> None:
    code = (
        "import tomllib; parsed = []; loads = tomllib.loads\n"
        "def count(text): parsed.append(text); return loads(text)\n"
        "tomllib.loads = count\n"
        "from twophase.model.catalogue import load_model\n"
        "load_model('Qwen/Qwen3-8B'); print(len(parsed))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "1"


@pytest.mark.parametrize(
    ("published", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("meta-llama/Meta-Llama-3-70B", "Llama-3-70B"),
        ("QWEN/qwen2.5-32b-instruct", "Qwen2.5-32B"),
        ("deepseek-ai/DeepSeek-R1-0528", "DeepSeek-R1"),
        ("google/gemma-3-27b-it", "Gemma-3-27B"),
        ("moonshotai/Kimi-K2-Instruct", "Kimi-K2"),
        ("qwen3.5-397b", "Qwen3.5-397B-A17B"),
    ],
)
def test_published_ids_are_names(published: str, name: str) -> None:
    assert load_spec(published).name == name
