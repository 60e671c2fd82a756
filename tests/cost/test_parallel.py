"""How weights, heads and work are dealt over devices: by hand, and as vLLM's logs report it."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from twophase.cost.deployment import Deployment
from twophase.cost.operators import operators, works
from twophase.cost.parallel import ALONE, Plan, require_divisible, resident_bytes, stages
from twophase.cost.spans import Spans, decodes, prefills
from twophase.errors import InputError
from twophase.model.cache import kv_bytes
from twophase.model.catalogue import load_spec
from twophase.model.counts import parameters
from twophase.model.hf_config import spec_from_config
from twophase.model.mixers import Attention, LatentAttention
from twophase.model.quantization import uniform
from twophase.model.spec import MLP, Layer, ModelSpec, MoE

GIB = 2**30
BF16 = uniform("bf16")
D, HEADS, KV_HEADS, HEAD_DIM, D_FF, VOCAB, LAYERS = 64, 8, 4, 16, 32, 128, 4
EXPERTS, TOP_K = 8, 2
QUERIES, KEYS = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM


def small(block: MLP | MoE, tied: bool = False) -> ModelSpec:
    attention = Attention(HEADS, KV_HEADS, HEAD_DIM, 1.0, None)
    layers = (Layer((attention,), block),) * LAYERS
    return ModelSpec("small", "llama", VOCAB, D, layers, 64, tied, 1e-6)


DENSE = MLP(D_FF, "silu")
SPARSE = MoE(EXPERTS, TOP_K, DENSE)
PLANS = st.builds(
    Plan, *(st.sampled_from(sizes) for sizes in ((1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8), (1, 2, 3)))
)


@given(PLANS, st.booleans())
def test_devices_hold_the_whole_and_what_each_repeats(plan: Plan, tied: bool) -> None:
    """Each replica has its attention, each device its norms, router, and one key-value head at the least."""
    assume(plan.ep == 1 or (plan.tp * plan.dp) % plan.ep == 0)
    repeated, each = max(1, plan.tp // KV_HEADS), plan.tp * plan.dp
    attention = 2 * D * QUERIES + 2 * D * KEYS * repeated
    experts = EXPERTS * 3 * D * D_FF * (1 if plan.ep > 1 else plan.dp)
    layer = attention * plan.dp + experts + (EXPERTS * D + 2 * D) * each
    tables = 1 if tied and plan.pp == 1 else 2  # a tied head stands on the last stage once more
    whole = 2 * (LAYERS * layer + tables * VOCAB * D * plan.dp + D * each)
    held = resident_bytes(small(SPARSE, tied), BF16, plan)
    assert len(held) == plan.pp
    assert sum(held) * plan.tp * plan.dp == pytest.approx(whole, rel=1e-12)


def test_one_device_holds_every_parameter() -> None:
    for name in ("llama-3.1-8b", "gemma-3-1b", "deepseek-v3", "qwen3-next-80b-a3b", "gpt-oss-20b"):
        spec = load_spec(name)
        assert resident_bytes(spec, BF16) == (2 * parameters(spec).total,)


@pytest.mark.parametrize(
    ("plan", "stage", "gib"),
    [
        (ALONE, 0, 14.99),
        (Plan(tp=4), 0, 3.77),
        (Plan(pp=2), 0, 7.51),
        (Plan(pp=4), 0, 4.26),
    ],
)
def test_weights_of_llama_8b_are_those_that_vllm_logs(plan: Plan, stage: int, gib: float) -> None:
    """vLLM 0.19.0 on H100, Llama-3.1-8B in BF16 (llm-d-planner PR 205): rank 0 holds the embedding."""
    held = resident_bytes(load_spec("llama-3.1-8b"), BF16, plan)
    assert held[stage] / GIB == pytest.approx(gib, rel=0.01)


@pytest.mark.parametrize(
    ("layers", "pp", "starts"),
    [
        (2, 2, [0, 1]),
        (3, 2, [0, 2]),
        (4, 3, [0, 1, 3]),
        (5, 3, [0, 2, 4]),
        (61, 8, [0, 7, 14, 22, 30, 38, 46, 54]),
    ],
)
def test_layers_are_dealt_out_as_in_vllm(layers: int, pp: int, starts: list[int]) -> None:
    """vLLM's tests/distributed/test_pipeline_partition.py; the last by its get_pp_indices."""
    spec = ModelSpec("any", "llama", 8, 8, small(DENSE).layers[:1] * layers, 8, False, 1e-6)
    found = stages(spec, pp)
    assert [stage.start for stage in found] == starts
    assert [at for stage in found for at in stage] == list(range(layers))


LLAMA_33B = {
    **{"model_type": "llama", "vocab_size": 32000, "hidden_size": 6656, "intermediate_size": 17920},
    **{"num_hidden_layers": 60, "num_attention_heads": 52},
}


@pytest.mark.parametrize(
    ("spec", "tp", "named"),
    [
        (lambda: load_spec("llama-2-13b"), 3, "40 heads"),
        (lambda: spec_from_config(LLAMA_33B, "33B", "config.json"), 3, "52 heads"),
        (lambda: load_spec("llama-2-70b"), 3, "64 heads"),
        (lambda: load_spec("qwen3-14b"), 5, "8 key-value heads"),
    ],
)
def test_engines_refuse_what_does_not_divide(spec: Callable[[], ModelSpec], tp: int, named: str) -> None:
    with pytest.raises(InputError, match=named) as raised:
        require_divisible(spec(), Plan(tp=tp))
    assert "2, 4" in str(raised.value) and "\n" not in str(raised.value)
    for size in (1, 2, 4):
        require_divisible(spec(), Plan(tp=size))


@pytest.mark.parametrize(
    ("plan", "named"),
    [
        (Plan(tp=0), "--tp 0"),
        (Plan(pp=5), "4 layers"),
        (Plan(ep=3, dp=3), "8 experts"),
        (Plan(tp=2, ep=4), "must divide"),
    ],
)
def test_other_plans_that_cannot_be(plan: Plan, named: str) -> None:
    with pytest.raises(InputError, match=named):
        require_divisible(small(SPARSE), plan)
    with pytest.raises(InputError, match="no experts"):
        require_divisible(small(DENSE), Plan(tp=2, ep=2))


SPANS = st.sampled_from([prefills(100), prefills(40, 30, 3), decodes(7, 300)])


@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 3]), SPANS)
def test_devices_share_the_flops(tp: int, dp: int, spans: Spans) -> None:
    """Each of tp devices does its part, and repeats the router; a replica has all of its own rows."""
    rows = int((spans.new * spans.count).sum())
    whole, part = (
        float(works(Deployment(small(SPARSE), plan=plan), spans)[0].total_flops)
        for plan in (ALONE, Plan(tp=tp, dp=dp))
    )
    assert part * tp == pytest.approx(whole + (tp - 1) * 2 * rows * LAYERS * EXPERTS * D)


@given(st.sampled_from([1, 2, 4]), SPANS)
def test_stages_share_the_flops(pp: int, spans: Spans) -> None:
    """Every stage but the last is without a head; together they do what one device does."""
    (alone,) = works(Deployment(small(DENSE, tied=True)), spans)
    dealt = works(Deployment(small(DENSE, tied=True), plan=Plan(pp=pp)), spans)
    assert sum(float(each.total_flops) for each in dealt) == pytest.approx(float(alone.total_flops))
    assert sum(float(each.bytes) for each in dealt) == pytest.approx(float(alone.bytes))


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2]))
def test_devices_share_the_bytes(tp: int, dp: int) -> None:
    """Of a decode step: weights, each row's place in the embedding, and keys as often as they are kept."""
    context, batch = 500, 3
    own = Deployment(small(DENSE), plan=Plan(tp=tp, dp=dp))
    matrices = LAYERS * (2 * D * QUERIES + 3 * D * D_FF) + VOCAB * D
    repeated = max(1, tp // KV_HEADS)
    keys = LAYERS * 2 * D * KEYS * repeated
    cached = LAYERS * batch * (context + 1) * 2 * KEYS * repeated
    (work,) = works(own, decodes(batch, context))
    assert float(work.bytes) * tp == pytest.approx(2 * (matrices + keys + cached + batch * D))


def test_experts_are_dealt_out_whole_or_cut() -> None:
    """Of 64 devices a device reads at least one expert of DeepSeek-V3 for one row; cut by 8, 8 eighths."""
    spec = load_spec("deepseek-v3")
    expert = 3 * 7168 * 2048 * 2 * 58
    for plan, read in [(Plan(tp=8), 8 / 8), (Plan(tp=8, ep=8), 1), (Plan(ep=64, dp=64), 1), (ALONE, 8)]:
        found = {each.name: each for each in operators(Deployment(spec, plan=plan), decodes(1, 1000))}
        assert float(found["experts"].read_bytes) == pytest.approx(read * expert)


def test_expected_experts_of_a_device_under_expert_parallelism() -> None:
    """Rows of all 64 replicas come by; a device has 4 of 256 experts: 4·(1 - (1 - 8/256)^rows)."""
    own = Deployment(load_spec("deepseek-v3"), plan=Plan(ep=64, dp=64))
    expert = 3 * 7168 * 2048 * 2 * 58
    for batch in (1, 4):
        found = {each.name: each for each in operators(own, decodes(batch, 1000), "expected")}
        touched = 4 * (1 - (1 - 8 / 256) ** (64 * batch))
        assert float(found["experts"].read_bytes) == pytest.approx(touched * expert)
        # 64·batch rows with 8 experts each are spread over 64 devices
        assert float(found["experts"].total_flops) == pytest.approx(batch * 8 * expert)


def test_latent_attention_is_not_divided() -> None:
    """DeepSeek-V3: heads are dealt out, the cached vector and the projections down stay whole on each."""
    spec = load_spec("deepseek-v3")
    mixer = spec.layers[0].mixers[0]
    assert isinstance(mixer, LatentAttention)
    one, eighth = (
        {each.name: each for each in operators(Deployment(spec, plan=plan), decodes(1, 4096))}
        for plan in (ALONE, Plan(tp=8))
    )
    assert eighth["attention"].read_bytes == one["attention"].read_bytes == 61 * 4096 * 576 * 2
    assert eighth["attention"].total_flops * 8 == one["attention"].total_flops
    down = 7168 * (1536 + 512 + 64)
    up = 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    assert one["attention projections"].total_flops == 2 * 61 * (down + up)
    assert eighth["attention projections"].total_flops == 2 * 61 * (down + up // 8)
    assert kv_bytes(spec, 100, tp=8) == kv_bytes(spec, 100)


def test_more_devices_than_key_value_heads_keep_them_again() -> None:
    spec = small(DENSE)
    four, eight = (
        {each.name: each for each in operators(Deployment(spec, plan=Plan(tp=tp)), decodes(1, 100))}
        for tp in (4, 8)
    )
    assert four["attention"].read_bytes == eight["attention"].read_bytes == LAYERS * 100 * 2 * HEAD_DIM * 2
    assert np.all(eight["attention"].total_flops * 2 == four["attention"].total_flops)
