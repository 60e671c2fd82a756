"""Pairs seen and cache kept under sliding windows, against what transformers' attention and cache do."""

import pytest
import torch
from small_configs import reference
from transformers import DynamicCache

from twophase.cost.deployment import Deployment
from twophase.cost.operators import operators
from twophase.cost.spans import prefills
from twophase.model.hf_config import spec_from_config

HEADS, KV_HEADS, HEAD_DIM = 4, 2, 32
SHAPE = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 7,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "sliding_window": 16,
}
CONFIGS = {
    "mistral": {**SHAPE, "model_type": "mistral"},
    "qwen3": {**SHAPE, "model_type": "qwen3", "use_sliding_window": True, "max_window_layers": 3},
    "gemma3_text": {**SHAPE, "model_type": "gemma3_text"},
}


@pytest.mark.filterwarnings("ignore:.*past_key_values:FutureWarning")  # newer ones call it cache
@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize(
    ("new", "context"), [(40, 0), (7, 0), (9, 10), (9, 40), (1, 10), (1, 15), (1, 16), (1, 40)]
)
def test_attention_sees_and_reads_what_transformers_does(family: str, new: int, context: int) -> None:
    """A pair is seen where a row's weight on a key is not zero: exactly zero is what the mask leaves."""
    model = reference(CONFIGS[family], "cpu", attn_implementation="eager").eval()
    cache, kept = DynamicCache(config=model.config), 0
    with torch.no_grad():
        if context:
            model(torch.zeros(1, context, dtype=torch.long), past_key_values=cache)
            kept = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
        made = model(torch.zeros(1, new, dtype=torch.long), past_key_values=cache, output_attentions=True)
    pairs = sum(int((weights > 0).sum()) for weights in made.attentions)  # of every head
    spec = spec_from_config(CONFIGS[family], family, "config")
    (own,) = (
        each
        for each in operators(Deployment(spec, kv_bytes=1.0), prefills(new, context))
        if each.name == "attention"
    )
    assert own.total_flops == 4 * HEAD_DIM * pairs
    assert own.read_bytes == kept
    # A layer's cache holds the newest tokens: of these, as many as fit are the pass's own.
    stored = sum(min(new, layer.keys.shape[-2]) for layer in cache.layers)
    assert own.written_bytes == stored * 2 * KV_HEADS * HEAD_DIM
