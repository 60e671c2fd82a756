"""Commands that start a plan: names that engines know, and what goes between replicas split by phase."""

import shlex
from pathlib import Path

import pytest
from plan_questions import question

from twophase.model.catalogue import hub_id
from twophase.plan.candidate import Candidate, Kind, Layout
from twophase.plan.commands import launch

KIND = Kind(Layout("h100-sxm", "", "bf16", 1, 1, 1), 2048, 64)
WHOLE, SPLIT = Candidate(KIND, 2), Candidate(KIND, 2, KIND, 1)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("gemma-3-27b-it", "google/gemma-3-27b-it"),
        ("llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("llama-3-8b-instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("mixtral-8x22b", "mistralai/Mixtral-8x22B-v0.1"),
        ("qwen3-coder-480b", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("mixtral-8x22b-chat", "<huggingface id of mixtral-8x22b-chat>"),
        ("./models/own", "./models/own"),
    ],
)
def test_where_a_model_is_published(name: str, published: str) -> None:
    assert hub_id(name) == published


def test_engines_load_what_is_published_and_our_own_server_its_catalogue_name() -> None:
    made = launch(question(), WHOLE, "llama-3.1-8b")
    assert {engine: len(lines) for engine, lines in made.items()} == {"vllm": 1, "sglang": 1, "twophase": 1}
    vllm, sglang, ours = (shlex.split(made[each][0], comments=True) for each in made)
    assert vllm[:3] == ["vllm", "serve", "meta-llama/Llama-3.1-8B"]
    assert sglang[3:5] == ["--model-path", "meta-llama/Llama-3.1-8B"]
    assert ours[:3] == ["twophase", "serve", "llama-3.1-8b"]


def test_a_path_stays_a_path(tmp_path: Path) -> None:
    made = launch(question(), WHOLE, str(tmp_path))
    assert all(str(tmp_path) in shlex.split(lines[0]) for lines in made.values())


def test_replicas_split_by_phase_say_what_goes_between_them() -> None:
    made = launch(question(), SPLIT, "llama-3.1-8b")
    for engine, said in (("vllm", "proxy"), ("sglang", "sglang_router"), ("twophase", "alone")):
        prefill, decode, between = made[engine]
        assert between.startswith("# ") and said in between, engine
        assert shlex.split(between, comments=True) == []  # pasted into a shell it does nothing
        assert shlex.split(prefill, comments=True) and shlex.split(decode, comments=True)
    assert "kv_producer" in made["vllm"][0] and "kv_consumer" in made["vllm"][1]
    assert "--disaggregation-mode prefill" in made["sglang"][0]
    assert "--disaggregation-mode decode" in made["sglang"][1]
