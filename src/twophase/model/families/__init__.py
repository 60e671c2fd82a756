"""Readers of Hugging Face configs, one function a family: the config's checked keys -> ModelSpec."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from twophase.model.keys import Keys
from twophase.model.spec import ModelSpec

Reader = Callable[[Keys, str], ModelSpec]

# The model_types that each module's READERS hold. A module is imported when one of its own is asked for: all
# of them together take longer than reading a config.
MODULES: dict[str, list[str]] = {
    "llama": ["llama", "mistral", "qwen2", "qwen3", "gemma3_text"],
    "deepseek": [
        "deepseek_v2",
        "deepseek_v3",
        "kimi_k2",
        "glm4_moe_lite",
        "deepseek_v32",
        "glm_moe_dsa",
        "longcat_flash",
        "minicpm3",
    ],
    "deepseek_v4": ["deepseek_v4", "deepseek_ref"],
    "gpt": [
        "gpt2",
        "gpt-sw3",
        "gpt_bigcode",
        "gptj",
        "codegen",
        "gpt_neo",
        "gpt_neox",
        "opt",
        "phi",
        "persimmon",
        "stablelm",
        "starcoder2",
    ],
    "alibi": ["bloom", "falcon", "mpt"],
    "dense": [
        "arcee",
        "nemotron",
        "jais2",
        "phi3",
        "ministral3",
        "gemma",
        "cohere",
        "olmo",
        "olmo2",
        "exaone",
        "granite",
        "hyperclovax",
        "glm",
        "glm4",
        "seed_oss",
        "helium",
        "hunyuan_v1_dense",
        "ernie4_5",
        "internlm3",
        "iquestcoder",
        "apertus",
        "nanochat",
    ],
    "dense_sliding": [
        "gemma2",
        "vaultgemma",
        "cohere2",
        "olmo3",
        "exaone4",
        "ministral",
        "cwm",
        "smollm3",
        "granite_swa",
    ],
    "dense_remote": ["mimo", "internlm", "internlm2", "qwen", "baichuan", "nemotron-nas"],
    "gemma4": ["gemma4_text", "gemma3n_text"],
    "hybrid": ["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "kimi_linear", "lfm2", "lfm2_moe"],
    "mamba": ["jamba", "nemotron_h", "falcon_h1", "bamba", "granitemoehybrid"],
    "moe": [
        "mixtral",
        "phimoe",
        "olmoe",
        "granitemoe",
        "granitemoeshared",
        "qwen2_moe",
        "qwen3_moe",
        "qwen3_vl_moe_text",
        "glm4_moe",
        "dots1",
        "exaone_moe",
        "ernie4_5_moe",
        "hunyuan_v1_moe",
        "dbrx",
    ],
    "moe_sparse": ["gpt_oss", "llama4_text", "mimo_v2_flash", "step3p5", "step3p7"],
    "minimax": [
        "minimax",
        "minimax_text_01",
        "minimax_m1",
        "minimax_m2",
        "minimax_m3",
        "minimax_m3_vl",
        "minimax_m3_vl_text",
    ],
    "qwen_vl": ["qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen3_vl_text"],
}
MODULE_OF = {model_type: module for module, own in MODULES.items() for model_type in own}


class _Readers(Mapping[str, Reader]):
    """By model_type. A reader takes the checked keys, the class's defaults behind them, and a name."""

    def __getitem__(self, model_type: str) -> Reader:
        readers: dict[str, Reader] = import_module(f"{__package__}.{MODULE_OF[model_type]}").READERS
        return readers[model_type]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULE_OF)

    def __len__(self) -> int:
        return len(MODULE_OF)


READERS = _Readers()


@cache
def defaults() -> dict[str, dict[str, Any]]:
    """What a config class assumes where the file is silent, by model_type: scripts/config_defaults.py."""
    table: dict[str, dict[str, Any]] = json.loads(
        files(__package__).joinpath("defaults.json").read_text(encoding="utf-8")
    )
    return table
