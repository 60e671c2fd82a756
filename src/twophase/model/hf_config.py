"""ModelSpec from a Hugging Face config.json, or from the same keys in the catalogue."""

import json
from pathlib import Path
from typing import Any

from twophase.errors import InputError, nearest, require_regular
from twophase.model.families import READERS, defaults
from twophase.model.keys import Config, Keys
from twophase.model.spec import ModelSpec

# Under which key a multimodal wrapper holds its language model, and its type where that names none itself.
WRAPPED = ("text_config", "llm_config", "language_config")
TEXT_TYPES = {"gemma3": "gemma3_text", "gemma4": "gemma4_text", "llama4": "llama4_text"}

# A model's own size is never guessed at: only a wrapper's inner config leaves out what its class assumes.
SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("n_embd", "n_head", "n_layer", "d_model", "n_heads", "n_layers", "num_heads", "num_layers"),
    *("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size"),
    *("ffn_dim", "word_embed_proj_dim", "hybrid_override_pattern"),
)


def read_hf_config(path: Path) -> ModelSpec:
    """`path`: a config.json, or the directory that holds it. InputError names what is missing or unknown."""
    config, name, where = read_config(path)
    return spec_from_config(config, name, where)


def read_config(path: Path) -> tuple[dict[str, Any], str, str]:
    """(the config, the model's name, how messages call the file)."""
    file = path / "config.json" if path.is_dir() else path
    require_regular(file)
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file} does not exist") from None
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not JSON, or is cut off: {error}") from None
    if not isinstance(config, dict):
        raise InputError(f"{file} is not a model's config: it holds no JSON object")
    return config, file.resolve().parent.name if file.name == "config.json" else file.stem, str(file)


def spec_from_config(config: Config, name: str, where: str) -> ModelSpec:
    """`where`: how error messages call the config."""
    text = text_config(config, where)
    model_type = text.get("model_type")
    if model_type is None:
        raise InputError(f"{where} has no model_type")
    if not isinstance(model_type, str) or model_type not in READERS:
        hint = nearest(str(model_type), READERS) or f"; {len(READERS)} are, llama, gpt2 and qwen3 among them"
        raise InputError(f"{where}: architecture {model_type!r:.80} is not known here{hint}")
    assumed = defaults().get(model_type, {})
    if text is config:
        assumed = {key: value for key, value in assumed.items() if key not in SIZES}
    return READERS[model_type](Keys(text, assumed, where), name)


def is_wrapped(config: Config) -> bool:
    """The language model stands inside a multimodal one."""
    return any(isinstance(config.get(key), dict) and config[key] for key in WRAPPED)


def text_config(config: Config, where: str) -> Config:
    """The language model's part of a config: the whole of it, or what a multimodal wrapper holds."""
    model_type = config.get("model_type")
    for key in WRAPPED:
        text = config.get(key)
        if isinstance(text, dict) and text:
            inner = text.get("model_type") or TEXT_TYPES.get(str(model_type), model_type)
            tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings"))
            outer = {} if tied is None else {"tie_word_embeddings": tied}
            return {**text, **outer, "model_type": inner}
    if str(model_type) in TEXT_TYPES:
        raise InputError(f"{where} has no text_config, which a {model_type} model needs")
    return config
