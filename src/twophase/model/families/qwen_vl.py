"""The language models of Qwen-VL: Qwen's own, with positions in three dimensions."""

from twophase.model.families.common import assuming
from twophase.model.families.llama import qwen2, qwen3
from twophase.model.keys import Keys
from twophase.model.spec import ModelSpec


def qwen2_vl_text(keys: Keys, name: str) -> ModelSpec:
    """Files of Qwen2-VL and Qwen2.5-VL may hold it flat, beside vision_config."""
    return qwen2(assuming(keys, rope_theta=1e6, max_window_layers=keys.get("max_window_layers", 80)), name)


def qwen3_vl_text(keys: Keys, name: str) -> ModelSpec:
    """Without windows."""
    return qwen3(assuming(keys, rope_theta=5e5, max_window_layers=0), name)


READERS = {
    "qwen2_vl": qwen2_vl_text,
    "qwen2_vl_text": qwen2_vl_text,
    "qwen2_5_vl": qwen2_vl_text,
    "qwen2_5_vl_text": qwen2_vl_text,
    "qwen3_vl_text": qwen3_vl_text,
}
