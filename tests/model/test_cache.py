"""What a sequence keeps: against transformers' own caches, engine logs and published shapes."""

from typing import Any

import pytest
import torch
from family_models import small_model
from hypothesis import given
from hypothesis import strategies as st
from transformers import CONFIG_MAPPING

from twophase.errors import InputError
from twophase.model.cache import (
    INDEX_SCALE_BYTES,
    LayerCache,
    caches,
    kv_bytes,
    kv_bytes_per_token,
    kv_bytes_per_token_unbounded,
    mixer_caches,
    state_bytes,
)
from twophase.model.catalogue import load_spec
from twophase.model.counts import parameters
from twophase.model.families import READERS
from twophase.model.hf_config import spec_from_config
from twophase.model.mixers import Attention, LatentAttention
from twophase.model.spec import ModelSpec

GIB, MIB = 2**30, 2**20
TOKENS = 24  # more than the windows of 16
FAMILIES = sorted(family for family in READERS if family in CONFIG_MAPPING)
SHARES_NO_HEADS = {"falcon": 2}  # keeps keys once for each query head, here two for each key
KEEPS_ALL = ("gpt_neo",)  # in sliding layers too
KEYS_ALONE = ("deepseek_v4",)  # values are the keys, and handed out twice


def kept(cache: LayerCache, family: str) -> int:
    """Entries after TOKENS: a window drops the token that the next row no longer sees."""
    window = TOKENS if cache.window is None or family in KEEPS_ALL else cache.window - 1
    return min(TOKENS, window) // cache.stride


def tensors(layer: Any) -> dict[str, torch.Tensor]:
    """Of one layer of transformers' cache, by name: keys, conv_states.0, compressed_kv.indexer."""
    found: dict[str, torch.Tensor] = {}
    for name, value in vars(layer).items():
        parts = {name: value} if not isinstance(value, dict) else {f"{name}.{k}": v for k, v in value.items()}
        found |= {key: each for key, each in parts.items() if isinstance(each, torch.Tensor) and each.dim()}
    return found


@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_caches_hold_what_transformers_caches(family: str) -> None:
    """Elements. An index is kept in 8 bits with a scale here, in full there."""
    model, spec = small_model(family)
    with torch.no_grad():
        output = model(torch.arange(3, 3 + TOKENS)[None], use_cache=True, logits_to_keep=1)
    growing, state, convolved = 0, 0, 0
    for layer in output.past_key_values.layers:
        for name, each in tensors(layer).items():
            if name in ("keys", "indexer_keys", "idx_keys") or name.startswith("compressed_kv."):
                growing += each.numel()
            elif name == "values":
                growing += 0 if family in KEYS_ALONE else each.numel()
            elif name.startswith("recurrent_states."):
                state += each.numel()
            elif name.startswith("conv_states."):
                convolved += each.shape[1] * (each.shape[2] - 1)  # theirs has room for the next token
    growing //= SHARES_NO_HEADS.get(family, 1)
    ours = sum(
        (cache.entry_bytes - INDEX_SCALE_BYTES * (cache.kind == "index")) * kept(cache, family) * count
        for cache, count in caches(spec, 1.0).items()
    )
    assert ours == growing
    if family != "minimax":  # whose linear layers keep a list of their own
        assert state_bytes(spec) == 4 * state + 2 * convolved


LLAMA = {
    **{"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008},
    **{"num_hidden_layers": 32, "num_attention_heads": 32},
}
SMALL_24B = {
    **{"model_type": "mistral", "vocab_size": 131072, "hidden_size": 5120, "intermediate_size": 32768},
    **{"num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128},
}
QWEN3_VL_30B = {
    **{"model_type": "qwen3_vl_moe_text", "vocab_size": 151936, "hidden_size": 2048, "head_dim": 128},
    **{"intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32},
    **{"num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
}
JAMBA = {
    **{"model_type": "jamba", "vocab_size": 65536, "hidden_size": 4096, "intermediate_size": 14336},
    **{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_experts": 16},
}


def read(config: dict[str, Any], **more: Any) -> ModelSpec:
    return spec_from_config({**config, **more}, "published", "config.json")


def test_head_dim_of_the_config_wins() -> None:
    """Mistral-Small-24B 128 and not 160, gpt-oss 64 and not 45, Qwen3-4B 128 and not 80, Gemma-3-12B 256."""
    assert kv_bytes_per_token(read(SMALL_24B)) == 163_840
    assert kv_bytes_per_token(load_spec("gpt-oss-20b")) == 49_152
    assert kv_bytes_per_token(load_spec("qwen3-4b")) == 147_456
    assert kv_bytes_per_token(load_spec("gemma-3-12b")) == 2 * 48 * 8 * 256 * 2
    assert kv_bytes_per_token(load_spec("gemma-7b")) == 458_752  # 192 would be 344,064


def test_head_dim_null_falls_back() -> None:
    assert read(LLAMA, head_dim=None).layers[0].attention.head_dim == 128
    with pytest.raises(InputError, match="num_attention_heads"):
        read(LLAMA, num_attention_heads=0)


def test_keys_are_those_of_key_value_heads() -> None:
    """Llama-3-8B at 8,192 tokens: 1 GiB, not the 4 of 32 heads; Qwen2.5-7B at 3,072: 0.164 GiB."""
    assert kv_bytes(load_spec("llama-3-8b"), 8192) == GIB
    qwen = load_spec("qwen2.5-7b")
    assert kv_bytes_per_token(qwen) == 57_344
    assert round(kv_bytes(qwen, 3072) / GIB, 3) == 0.164
    assert kv_bytes_per_token(read(LLAMA)) == 524_288  # TensorRT-LLM: 69,524,783,104 B for 132,608 tokens
    assert kv_bytes(read(LLAMA), 132_608) == 69_524_783_104


def test_latent_attention_keeps_one_vector() -> None:
    """61·576·2, in FP8 the half; the heads of 192 and 128 would be 71.1 times as large. Engines' pools:
    41.60 GiB hold 635,648 tokens on each of 8 devices, 160.63 GiB 2,454,421; eight times less is wrong."""
    spec = load_spec("deepseek-v3")
    assert kv_bytes_per_token(spec) == kv_bytes_per_token_unbounded(spec) == 70_272
    assert kv_bytes_per_token(spec, 1.0) == 35_136
    (mixer,) = spec.layers[0].mixers
    assert isinstance(mixer, LatentAttention)
    heads = 61 * 128 * (mixer.nope_dim + mixer.rope_dim + mixer.v_dim) * 2
    assert heads == 4_997_120 and round(heads / 70_272, 1) == 71.1
    assert kv_bytes(spec, 1, tp=8) == 70_272
    assert 41.60 * GIB / kv_bytes(spec, 1, tp=8) == pytest.approx(635_648, rel=1e-3)
    kimi = load_spec("kimi-k2.5")
    assert 160.63 * GIB / kv_bytes(kimi, 1, tp=8) == pytest.approx(2_454_421, rel=1e-3)


def test_an_index_is_kept_beside() -> None:
    """DeepSeek-V3.2: a key of 128 in 8 bits with a 32-bit scale in each layer (vLLM's indexer cache)."""
    assert kv_bytes_per_token(load_spec("deepseek-v3.2")) == 70_272 + 61 * 132


def test_gpt_oss_grows_in_every_other_layer() -> None:
    """llama.cpp's log for 131,072 cells, with a ring of 768: 3072.00 + 18.00 MiB; all full would be 6 GiB."""
    spec = load_spec("gpt-oss-20b")
    (full, layers), (sliding, windows) = sorted(caches(spec).items(), key=lambda item: item[0].window or 0)
    assert full.bytes_at(131_072) * layers == 3072 * MIB
    assert sliding.entry_bytes * 768 * windows == 18 * MIB
    assert kv_bytes(spec, 131_072) == 3 * GIB + 12 * 2048 * 128
    # 8,192 tokens of 32 sequences: 6.09 GiB, ideal
    assert round(32 * kv_bytes(spec, 8192) / GIB, 2) == 6.09


def test_gpt_oss_120b_before_and_after_its_window() -> None:
    """vLLM: 5.38 GiB are 78,384 tokens. At 65,536 in FP8: 18·65,536·1,024 + 18·128·1,024."""
    spec = load_spec("gpt-oss-120b")
    assert kv_bytes_per_token(spec) == 73_728
    assert 78_384 * kv_bytes_per_token(spec) / GIB == pytest.approx(5.38, abs=0.005)
    assert kv_bytes_per_token_unbounded(spec) == 36_864
    assert kv_bytes(spec, 65_536, 1.0) == 18 * 65_536 * 1024 + 18 * 128 * 1024
    assert round(kv_bytes(spec, 65_536, 1.0) / GIB, 3) == 1.127


def test_gemma_slides_in_five_layers_of_six() -> None:
    """Gemma-3-27B: 10 of 62 layers are full. Gemma-4-31B: those have 4 heads of 512, the others 16 of 256."""
    three, four = load_spec("gemma-3-27b"), load_spec("gemma-4-31b")
    assert kv_bytes(three, 4096) == (52 * 1024 + 10 * 4096) * 2 * 16 * 128 * 2
    assert kv_bytes_per_token(four) == (50 * 16 * 256 + 10 * 4 * 512) * 2 * 2
    assert kv_bytes(four, 262_144) == (50 * 1024 * 16 * 256 + 10 * 262_144 * 4 * 512) * 2 * 2


def test_keys_and_values_of_different_width() -> None:
    """MiMo-V2-Flash: keys of 192, values of 128; 4 heads where all is seen, 8 where 128 before a row are."""
    spec = load_spec("mimo-v2-flash")
    found = sorted((cache.window or 0, cache.entry_bytes, n) for cache, n in caches(spec).items())
    assert found == [(0, 4 * (192 + 128) * 2, 9), (129, 8 * (192 + 128) * 2, 39)]


def attending(spec: ModelSpec) -> int:
    return sum(isinstance(mixer, Attention) for layer in spec.layers for mixer in layer.mixers)


def test_hybrids_cache_in_a_few_layers() -> None:
    """Qwen3-Next 12 of 48, Nemotron-3-Nano 6 of 52, Nemotron-3-Super 8 of 88, Jamba 4 of 32."""
    known = [
        (load_spec("qwen3-next-80b-a3b"), 12, 48, 2 * 256),
        (load_spec("nemotron-3-nano-30b-a3b"), 6, 52, 2 * 128),
        (load_spec("nemotron-3-super-120b-a12b"), 8, 88, 2 * 128),
        (read(JAMBA), 4, 32, 8 * 128),
    ]
    for spec, attention, layers, width in known:
        assert (attending(spec), len(spec.layers)) == (attention, layers)
        assert kv_bytes_per_token(spec) == 2 * attention * width * 2


def test_state_of_hybrids_by_hand() -> None:
    """Hv·Dk·Dv in float32 and (2·Hk·Dk + Hv·Dv)·(taps - 1) in 16 bits; Mamba-2 heads·P·N and its own."""
    qwen = load_spec("qwen3-next-80b-a3b")
    assert state_bytes(qwen) == 36 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2)
    nano = load_spec("nemotron-3-nano-30b-a3b")
    assert state_bytes(nano) == 23 * (64 * 64 * 128 * 4 + (64 * 64 + 2 * 8 * 128) * 3 * 2)


def test_qwen_27b_as_engines_report_it() -> None:
    """llama.cpp at 262,144: 16,384 MiB of KV, and 598.5 MiB of state of four sequences, all in float32.
    vLLM with FP8 KV on two devices: 32,768 bytes a token, 9.24 of 9.98 GiB for 302,921 tokens."""
    spec = load_spec("qwen3.6-27b")
    assert kv_bytes(spec, 262_144) - state_bytes(spec) == 16_384 * MIB
    convolved = 48 * (2 * 16 * 128 + 48 * 128) * 3
    assert 4 * (state_bytes(spec) + 2 * convolved) == 598.5 * MIB
    assert 2 * (kv_bytes(spec, 1, 1.0, tp=2) - state_bytes(spec) / 2) == 32_768
    assert round(302_921 * 32_768 / GIB, 2) == 9.24


def test_keys_are_kept_again_where_devices_outnumber_them() -> None:
    """Qwen3-VL-30B-A3B, 4 key-value heads: on each of 8 devices one whole, as on each of 4."""
    spec = read(QWEN3_VL_30B)
    assert kv_bytes(spec, 1, tp=4) == kv_bytes(spec, 1, tp=8) == 48 * 1 * 128 * 2 * 2 == 24_576
    assert 8 * kv_bytes(spec, 1, tp=8) == 2 * kv_bytes(spec, 1)


def test_tied_heads_and_experts_are_counted_once_and_all() -> None:
    """Qwen2-0.5B: 0.49B, 0.36B without embedding; 1.5B: 1.54B, 1.31B. Mixtral: 46.7B, 12.9B active."""
    shape = {"model_type": "qwen2", "vocab_size": 151936, "tie_word_embeddings": True}
    shape |= {"num_key_value_heads": 2}
    small = {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
    }
    large = {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
    }
    for sizes, total, blocks in [(small, 0.49, 0.36), (large, 1.54, 1.31)]:
        counted = parameters(read(shape | sizes))
        assert round(counted.total / 1e9, 2) == total
        assert round((counted.total - counted.embedding) / 1e9, 2) == blocks
    mixtral = parameters(load_spec("mixtral-8x7b"))
    assert (round(mixtral.total / 1e9, 1), round(mixtral.active / 1e9, 1)) == (46.7, 12.9)


@given(
    st.builds(
        Attention,
        *(st.integers(1, 8), st.integers(1, 8), st.integers(1, 64), st.just(1.0), st.none()),
        window=st.none() | st.integers(1, 300),
    ),
    st.integers(0, 600),
    st.integers(0, 600),
    st.sampled_from([0.5, 0.5625, 1.0, 2.0]),
)
def test_caches_grow_until_their_window(own: Attention, context: int, more: int, width: float) -> None:
    (cache,) = mixer_caches(own, width)
    some, all_ = cache.bytes_at(context), cache.bytes_at(context + more)
    assert some <= all_ <= some + cache.bytes_at(more)
    assert cache.bytes_at(10**6) == 2 * own.kv_heads * own.head_dim * width * (own.window or 10**6)
