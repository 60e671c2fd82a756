"""Which network a name means: published ids and the loose spellings of benchmark tables."""

from pathlib import Path

import pytest

from twophase.errors import InputError
from twophase.lint.names import Models, folder_models, network_of

CONFIGS = Path(__file__).parents[1] / "data" / "lint" / "configs"


@pytest.mark.parametrize(
    ("name", "network", "weights"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama318b", None),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "llama318b", "fp8"),
        ("Meta-Llama-3-8B", "llama38b", None),
        ("llama 7B Q4_0", "llama7b", "q4_0"),
        ("Llama-3.2-1B Q4_K_M", "llama321b", "q4_k_m"),
        ("DeepSeek-R1-0528 FP4", "deepseekr1", "nvfp4"),
        ("nvidia/Qwen3-32B-NVFP4", "qwen332b", "nvfp4"),
        ("Qwen3.6-35B-A3B AWQ-4bit", "qwen3635ba3b", "int4"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int8", "qwen257b", "int8"),
        ("Qwen3-235B-A22B-Instruct-2507", "qwen3235ba22b", None),
        ("google--gemma-3-27b-it.json", "gemma327b", None),
        ("Mistral-7B-Instruct-v0.3", "mistral7b", None),
        ("GLM-4.7-W8A8", "glm47", "int8"),
    ],
)
def test_a_name_is_a_network_and_perhaps_a_format(name: str, network: str, weights: str | None) -> None:
    assert network_of(name) == (network, weights)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Llama-3.3-70B-Instruct FP8", "llama-3.3-70b"),
        ("llama2-70b", "llama-2-70b"),
        ("LLaMA-7B", "llama-2-7b"),  # the same shapes as Llama 2's
        ("qwen3-32b", "qwen3-32b"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b-fp8"),
    ],
)
def test_the_catalogue_is_found_by_loose_names(name: str, found: str) -> None:
    assert Models().find(name) == found


def test_a_folder_goes_before_the_catalogue_and_r1_has_the_shape_of_v3() -> None:
    models = Models(folder_models(CONFIGS))
    assert Path(models.find("openai/gpt-oss-120b")).name == "openai--gpt-oss-120b.json"
    assert Path(models.find("deepseek-ai/DeepSeek-V3")).name == "deepseek-ai--DeepSeek-R1.json"


def test_folders_by_organisation_are_read_too(tmp_path: Path) -> None:
    nested = tmp_path / "acme" / "Tiny-1B"
    nested.mkdir(parents=True)
    (nested / "config.json").write_text("{}")
    assert folder_models(tmp_path) == {"acme/Tiny-1B": str(nested / "config.json")}
    assert Models(folder_models(tmp_path)).find("tiny-1b-instruct") == str(nested / "config.json")


@pytest.mark.parametrize("name", ["8B-class fp8 (doc example)", "small dense model", "fp8", ""])
def test_no_model_is_guessed(name: str) -> None:
    with pytest.raises(InputError, match="no model is called"):
        Models().find(name)


def test_an_unknown_name_is_told_its_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean .*qwen2\.5-72b"):
        Models().find("Qwen1.5-72B")


def test_no_folder_is_a_folder_of_models(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        folder_models(tmp_path / "none")
    with pytest.raises(InputError, match="holds no"):
        folder_models(tmp_path)
