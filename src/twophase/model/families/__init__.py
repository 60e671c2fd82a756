"""Readers of Hugging Face configs, one function a family: the config's checked keys -> ModelSpec."""

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from twophase.model.families import (
    alibi,
    deepseek,
    dense,
    dense_remote,
    dense_sliding,
    gpt,
    hybrid,
    llama,
    mamba,
    minimax,
    moe,
    moe_sparse,
    qwen_vl,
)
from twophase.model.keys import Keys
from twophase.model.spec import ModelSpec

Reader = Callable[[Keys, str], ModelSpec]

# By model_type; a reader takes the checked keys, the class's defaults behind them, and the model's name.
READERS: dict[str, Reader] = {
    **llama.READERS,
    **deepseek.READERS,
    **gpt.READERS,
    **alibi.READERS,
    **dense.READERS,
    **dense_sliding.READERS,
    **dense_remote.READERS,
    **hybrid.READERS,
    **mamba.READERS,
    **moe.READERS,
    **moe_sparse.READERS,
    **minimax.READERS,
    **qwen_vl.READERS,
}


@cache
def defaults() -> dict[str, dict[str, Any]]:
    """What a config class assumes where the file is silent, by model_type: scripts/config_defaults.py."""
    table: dict[str, dict[str, Any]] = json.loads(
        files(__package__).joinpath("defaults.json").read_text(encoding="utf-8")
    )
    return table
