"""Counts against transformers' models on the meta device, published totals, and values worked out by hand."""

import pytest
from small_configs import reference

from twophase.model.cache import kv_bytes, kv_bytes_per_token
from twophase.model.catalogue import catalogue, load_spec
from twophase.model.counts import matmul_parameters, parameters

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text")
DENSE = [
    name
    for name, entry in catalogue().items()
    if entry["model_type"] in FAMILIES and "quantization_config" not in entry
]


@pytest.mark.parametrize("name", DENSE)
def test_every_dense_catalogue_entry_counts_as_transformers_does(name: str) -> None:
    entry = dict(catalogue()[name])
    if not entry.get("sliding_window", True):
        entry["sliding_window"] = None
    model = reference(entry)
    own = parameters(load_spec(name))
    blocks = [parameter for key, parameter in model.named_parameters() if ".layers." in key]
    assert own.total == sum(parameter.numel() for parameter in model.parameters())
    assert own.embedding == model.get_input_embeddings().weight.numel()
    assert own.head == model.get_output_embeddings().weight.numel()
    assert own.attention + own.mlp + own.norms - entry["hidden_size"] == sum(each.numel() for each in blocks)
    matrices = sum(parameter.numel() for parameter in blocks if parameter.ndim == 2)
    assert matmul_parameters(load_spec(name)) == matrices + own.head


def test_kv_cache_by_hand() -> None:
    assert kv_bytes_per_token(load_spec("llama-3-8b")) == 2 * 32 * 8 * 128 * 2
    assert kv_bytes_per_token(load_spec("llama-3-8b"), 1.0) == 2 * 32 * 8 * 128
    assert kv_bytes_per_token(load_spec("qwen2.5-7b")) == 57_344  # 2·28·4·128·2, as users measured
    assert kv_bytes_per_token(load_spec("qwen3-4b")) == 147_456  # head_dim 128, where d_model / heads is 80


def test_windows_cap_the_kv_cache() -> None:
    spec = load_spec("gemma-3-270m")  # 15 local layers of 512 tokens, 3 global ones, a head of 256
    assert kv_bytes(spec, 500) == 500 * kv_bytes_per_token(spec)
    assert kv_bytes(spec, 20_000) == 2 * 256 * 2 * (15 * 512 + 3 * 20_000)
    assert kv_bytes(spec, 0) == 0
