"""Blocks of an engine's pool, against what engines print and against arithmetic by hand."""

from dataclasses import replace

import pytest
from fit_cases import GIB, model_of, rows
from hypothesis import given
from hypothesis import strategies as st

from twophase.cost.parallel import Plan
from twophase.errors import InputError
from twophase.fit.capacity import capacity_of, concurrency
from twophase.fit.fit import Fit, fit
from twophase.fit.pools import Paging, sglang_layout, trtllm_layout, vllm_layout
from twophase.fit.serving import Serving
from twophase.hardware.catalogue import load_accelerator
from twophase.model.cache import LayerCache, kv_bytes
from twophase.model.catalogue import Model, load_model
from twophase.model.hf_config import spec_from_config
from twophase.model.quantization import uniform

ROWS = rows()
GPT_OSS_20B, GPT_OSS_120B = model_of(ROWS["FIT-19"]), model_of(ROWS["FIT-75"])
QWEN_27B = model_of(ROWS["FIT-71"])  # 64 layers, 16 of them attention
NEXT = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
}


def pooled(model: Model, gib: float, **asked: object) -> Fit:
    serving = replace(Serving(kv_pool_bytes=gib * GIB), **asked)  # type: ignore[arg-type]
    return fit(model, load_accelerator("b300"), serving)


def test_two_kinds_of_layers_share_the_blocks_by_halves() -> None:
    """hf-mem#60: gpt-oss-120b, 5.38 GiB, the log says 78,384 tokens: 73,728 bytes each."""
    found = pooled(GPT_OSS_120B, 5.38, version="0.11")
    assert found.layout.pools[0].block_bytes == 18 * 16 * 2048
    assert found.capacity.logged_tokens == pytest.approx(78_384, rel=0.001)


def test_ideal_and_without_groups() -> None:
    """hf-mem#70: 32 sequences of 8,192 on gpt-oss-20b are 6.09 GiB ideal, 12.00 GiB with one kind of page."""
    assert 32 * kv_bytes(GPT_OSS_20B.spec, 8192) / GIB == pytest.approx(6.09, abs=0.005)
    assert pooled(GPT_OSS_20B, 12.0, version="0.9").sequences(8192) == 32
    assert pooled(GPT_OSS_20B, 11.99, version="0.9").sequences(8192) == 31
    assert pooled(GPT_OSS_20B, 6.1, engine="plain").sequences(8192) == 32


def test_windows_in_one_sequence() -> None:
    """aiconfigurator#1537: gpt-oss-120b in FP8 at 65,536 tokens is 1.127 GiB, not 2.26."""
    found = pooled(GPT_OSS_120B, 1.1275, engine="plain", kv="fp8", max_model_len=65_536)
    assert found.sequence_bytes == 18 * 65_536 * 1024 + 18 * 128 * 1024
    assert found.sequences(65_536) == 1


def test_every_layer_slides() -> None:
    """vllm#19029: 769 blocks a request, and 137,407 of them are 178.68 requests."""
    model = model_of(ROWS["FIT-55"])
    asked = {"version": "0.9", "max_model_len": 16_384, "max_num_batched_tokens": 8192}
    found = pooled(model, 137_407 * 16 * 30_720 / GIB, **asked)
    assert found.layout.pools[0].blocks_for(16_384) == 769
    assert (found.capacity.logged_tokens, round(found.capacity.concurrency, 2)) == (2_198_512, 178.68)


def test_gemma_3_27b_pads_its_last_group() -> None:
    """52 sliding layers make six groups of ten beside one of full layers."""
    found = pooled(load_model("gemma-3-27b"), 16.0)
    assert len(found.layout.pools[0].groups) == 7
    assert found.layout.pools[0].block_bytes == 10 * 16 * 16 * 128 * 2 * 2


def test_a_hybrids_block_is_as_large_as_its_state() -> None:
    """Lines of vLLM: 544 tokens for Qwen3-Next, 784 for Qwen3.5 27B; 1,568 in FP8."""
    following = Model(spec_from_config(NEXT, "Qwen3-Next", "test"), uniform("bf16"))
    assert pooled(following, 4.0).capacity.block_tokens == 544
    assert pooled(QWEN_27B, 4.0).capacity.block_tokens == 784
    assert pooled(QWEN_27B, 4.0, kv="fp8", plan=Plan(tp=2)).capacity.block_tokens == 1568


def test_the_line_for_hybrids_was_wrong() -> None:
    """vllm#40691: Qwen3.5 27B at 32,768: 290,864 tokens and 33.04x in one log, without prefix caching."""
    gib = 1487 * 16 * 784 * 4096 / GIB + 1e-6
    before = pooled(QWEN_27B, gib, version="0.19", max_model_len=32_768, prefix_caching=False)
    assert (before.capacity.logged_tokens, round(before.capacity.concurrency, 2)) == (290_864, 33.04)
    since = pooled(QWEN_27B, gib, version="0.21", max_model_len=32_768, prefix_caching=False)
    assert since.capacity.logged_tokens == int(1487 / 45 * 32_768)
    assert before.capacity.paged_tokens == since.capacity.paged_tokens


def test_a_log_of_160k_tokens_that_holds_half_a_million() -> None:
    """Qwen3.5 35B-A3B in FP8, vLLM 0.17: 159,296 tokens and 8.0x at 65,536."""
    model = model_of(ROWS["FIT-69"])
    found = pooled(model, 304 * 10 * 2096 * 1024 / GIB + 1e-6, version="0.17", kv="fp8", max_model_len=65_536)
    assert (found.capacity.logged_tokens, found.capacity.concurrency) == (159_296, 8.0)
    assert found.capacity.paged_tokens == 524_288


def test_a_hybrid_at_its_full_length() -> None:
    """262,144 tokens are 168 blocks of 1,568 for the attention, and six for states."""
    found = pooled(QWEN_27B, 4.99, kv="fp8", plan=Plan(tp=2), max_model_len=262_144)
    assert found.layout.pools[0].blocks_for(262_144) == 168 + 6
    assert found.capacity.blocks == 208


def test_latent_attention_is_whole_on_every_device() -> None:
    deepseek = model_of(ROWS["FIT-43"])
    for tp in (1, 8):
        assert pooled(deepseek, 41.6, plan=Plan(tp=tp)).capacity.ideal_tokens == 635_639
    # Kimi-K2.5 has DeepSeek's latent dimensions and layers; SGLang printed 2,454,421 tokens of 160.63 GiB
    kimi = pooled(deepseek, 160.63, plan=Plan(tp=8), engine="sglang")
    assert kimi.capacity.logged_tokens == pytest.approx(2_454_421, rel=1e-4)


def test_a_device_has_one_kv_head_at_least() -> None:
    """48 layers, 4 KV heads of 128: 24,576 bytes a token on a device at TP4 and at TP8."""
    model = model_of(ROWS["FIT-53"])
    for tp, bytes_ in ((1, 98_304), (4, 24_576), (8, 24_576)):
        assert pooled(model, 10, plan=Plan(tp=tp)).layout.pools[0].block_bytes == 16 * bytes_


def test_tensorrt_llm_in_bytes() -> None:
    """TensorRT-LLM#1400: 69,524,783,104 bytes are 132,608 tokens of 524,288."""
    llama = load_model("llama-2-7b")
    found = pooled(llama, 69_524_783_104 / GIB, engine="trtllm", block_size=64)
    assert found.capacity.logged_tokens == 132_608


def test_float32_cache() -> None:
    """llm-d-planner PR#205: 42.80 GiB hold 175,296 tokens of 262,144 bytes."""
    found = pooled(load_model("llama-3.1-8b"), 42.80, kv="float32")
    assert found.capacity.logged_tokens == pytest.approx(175_296, rel=0.0002)


def test_plans_that_engines_refuse() -> None:
    llama_2_13b = load_model("llama-2-13b")  # 40 heads
    qwen = load_model("qwen3-14b")  # 40 heads, a vocabulary of 151,936
    deepseek = load_model("deepseek-v4-flash")  # 64 heads, a vocabulary of 129,280
    for model, tp in ((llama_2_13b, 3), (load_model("llama-2-70b"), 3), (qwen, 5), (deepseek, 5)):
        with pytest.raises(InputError, match=f"--tp {tp}"):
            pooled(model, 10, plan=Plan(tp=tp))


def test_engines_pad_the_vocabulary_before_they_deal_it_out() -> None:
    """vLLM's vocab_parallel_embedding.py: GPT-2's 50,257 rows become 50,304, which two devices share."""
    model = load_model("llama-3.1-8b")
    odd = replace(model, spec=replace(model.spec, vocab_size=50_257))
    assert pooled(odd, 10, plan=Plan(tp=2)).fits


entries = st.integers(1, 64).map(lambda heads: heads * 256.0)
growing = st.builds(LayerCache, entries, st.sampled_from([None, 128, 1000, 4096]))
states = st.builds(lambda size: LayerCache(state_bytes=float(size), kind="state"), st.integers(1, 2**22))
kinds = st.lists(st.tuples(growing | states, st.integers(1, 40)), min_size=1, max_size=4)
pools = st.floats(0, 2.0**38)


@given(kinds, pools, st.integers(1, 10**6), st.sampled_from(["vllm", "sglang", "trtllm"]))
def test_no_layout_holds_more_than_there_is(
    own: list[tuple[LayerCache, int]], memory: float, length: int, engine: str
) -> None:
    layout = {
        "vllm": lambda: vllm_layout(own, Paging(16, 2048)),
        "sglang": lambda: sglang_layout(own),
        "trtllm": lambda: trtllm_layout(own, 32, length),
    }[engine]()
    assert sum(pool.portion for pool in layout.pools) == pytest.approx(1)
    held = concurrency(layout, memory, length)
    needed = sum(cache.bytes_at(length) * count for cache, count in own)
    assert held * needed <= memory * (1 + 1e-9)
    assert concurrency(layout, 2 * memory, length) >= held
    found = capacity_of(layout, memory, length, log_divides=False)
    assert (found.longest >= length) == (held >= 1)
    assert found.longest <= found.ideal_tokens
