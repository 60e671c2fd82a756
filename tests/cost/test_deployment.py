"""Bytes and FLOPs of a model as it is served: experts, formats, and figures that people have published."""

from dataclasses import replace

import numpy as np
import pytest

from twophase.cost import textbook
from twophase.cost.deployment import Deployment, as_bits
from twophase.cost.operators import Touched, operators
from twophase.cost.parallel import Plan
from twophase.cost.roofline import floor, floor_of
from twophase.cost.spans import decodes, prefills
from twophase.hardware.accelerator import Accelerator
from twophase.model.catalogue import load_spec
from twophase.model.counts import parameters
from twophase.model.mixers import Attention
from twophase.model.quantization import uniform
from twophase.model.spec import MLP, Layer, ModelSpec, MoE


def machine(bandwidth: float, **peaks: float) -> Accelerator:
    return Accelerator("any", "any", "any", peaks, 80e9, 80e9, bandwidth)


T4 = machine(320e9, bf16=65e12)
A100 = machine(2.039e12, bf16=312e12)
H100 = machine(3.35e12, bf16=989.4e12, fp8=1978.9e12)
QWEN3_30B = load_spec("qwen3-30b-a3b")  # 48 layers of 8 of 128 experts, 768 wide on 2,048
EXPERT = 3 * 768 * 2048


def experts_read(batch: int, touched: Touched, plan: Plan | None = None) -> float:
    """Of each layer."""
    own = Deployment(QWEN3_30B, plan=plan or Plan())
    found = {each.name: each for each in operators(own, decodes(batch, 1000), touched)}
    return float(found["experts"].read_bytes) / (48 * EXPERT * 2)


@pytest.mark.parametrize(("batch", "distinct"), [(1, 8.0), (8, 51.6), (32, 111.8), (128, 128.0)])
def test_a_batch_touches_more_and_more_experts(batch: int, distinct: float) -> None:
    """E·(1 - (1 - k/E)^batch), 8 of 128; a floor can count on no more than one row's."""
    assert round(experts_read(batch, "expected"), 1) == distinct
    assert experts_read(batch, "least") == 8
    assert experts_read(batch, "expected", Plan(tp=4)) * 4 == pytest.approx(experts_read(batch, "expected"))


def test_expected_experts_are_those_of_random_routing() -> None:
    random = np.random.default_rng(0)
    for batch in (3, 20):
        drawn = np.argsort(random.random((2000, batch, 128)), axis=-1)[..., :8]
        met = np.mean([len(set(each.ravel().tolist())) for each in drawn])
        assert experts_read(batch, "expected") == pytest.approx(met, rel=0.01)


def test_five_users_touch_almost_five_times_the_experts() -> None:
    """256·(1 - (1 - 8/256)^5) is 37.6, 4.7 times 8 (kyuz0's toolboxes, issue 72)."""
    spec = load_spec("qwen3.6-35b-a3b")
    moe = spec.layers[0].feed_forward
    assert isinstance(moe, MoE)
    assert (moe.experts, moe.top_k) == (256, 8)
    one, five = (
        {each.name: each for each in operators(Deployment(spec), decodes(batch, 100), "expected")}["experts"]
        for batch in (1, 5)
    )
    ratio = float(five.read_bytes / one.read_bytes)
    assert round(8 * ratio, 1) == 37.6 and round(ratio, 1) == 4.7


def test_memory_is_all_experts_and_speed_those_that_are_used() -> None:
    """llmfit took all 35B for a step on an RX 6900 XT (34.7 tokens/s where 77.6 were measured)."""
    spec = load_spec("qwen3.6-35b-a3b")
    slow = machine(512e9, bf16=46e12)
    step = float(floor(Deployment(spec, as_bits(2.3 / 8)), decodes(1, 100), slow).seconds)
    assert 1 / step > 77.6
    everything = parameters(spec).total * 2.3 / 8 / 512e9
    assert 1 / everything < 77.6


def test_a_decode_step_of_llama_7b() -> None:
    """gpt-fast's README on A100: 104.9 tokens/s at 1397 GB/s. Weights but the embedding, looked up, are
    13.21 GB or 6.48 ms; with that, as gpt-fast counts, 13.32 (of cache too), int8 6.87, int4 by 32s 4.38."""
    spec = load_spec("llama-2-7b")
    step = floor(Deployment(spec), decodes(1, 1), A100)
    assert float(step.bytes) / 1e9 == pytest.approx(13.21, abs=0.01)  # with two tokens' keys, 1 MB
    assert round(float(step.seconds) * 1e3, 2) == 6.48
    assert round(1 / float(step.seconds)) == 154
    embedding = 32000 * 4096 * 2
    for bits, gigabytes in [(8, 6.87), (4 + 2 * 16 / 32, 4.38)]:
        weights = float(floor(Deployment(spec, as_bits(bits / 8)), decodes(1, 1), A100).bytes)
        assert (weights + embedding) / 1e9 == pytest.approx(gigabytes, abs=0.02)


@pytest.mark.parametrize(
    ("name", "tp", "kind", "accelerator", "least", "measured", "mfu"),
    [
        ("llama-2-7b", 1, "bf16", A100, 90.3, 133, 68),
        ("llama-2-7b", 1, "fp8", H100, 14.2, 36, 40),
        ("llama-2-70b", 4, "bf16", A100, 229.9, 377, 61),
        ("llama-2-70b", 4, "fp8", H100, 36.3, 109, 33),
    ],
)
def test_prefill_of_2048_tokens(
    name: str, tp: int, kind: str, accelerator: Accelerator, least: float, measured: float, mfu: float
) -> None:
    """TensorRT-LLM 0.5's performance.md, ms: 2·(parameters - embedding)·2048 + causal attention."""
    own = Deployment(load_spec(name), plan=Plan(tp=tp), arithmetic=kind)
    seconds = float(floor_of(textbook.prefill(own, 2048), accelerator).compute_s)
    assert round(seconds * 1e3, 1) == least
    assert round(100 * seconds / (measured / 1e3)) == mfu
    assert float(floor(own, prefills(2048), accelerator).seconds) <= seconds < measured / 1e3


def test_what_no_h100_can_do() -> None:
    """Llama-3.3-70B in FP8: 69.5 GB a token are 20.7 ms, 48 tokens/s of one user. A blog's 120 of one and 65
    of each of ten are impossible, 37 of each of fifty are not."""
    spec = load_spec("llama-3.3-70b")
    own = Deployment(spec, as_bits(1.0), kv_bytes=1.0)
    one = floor(own, decodes(1, 1), H100)
    assert round(float(one.bytes) / 1e9, 1) == 69.5
    assert round(float(one.seconds) * 1e3, 1) == 20.7
    rates = {users: 1 / float(floor(own, decodes(users, 1000), H100).seconds) for users in (1, 10, 50)}
    assert round(1 / float(one.seconds)) == 48
    assert rates[1] < 120 and rates[10] < 65 and rates[50] > 37


def test_a_t4_passes_only_at_its_peak() -> None:
    """Llama-3-8B in 16 bits, 2,048 tokens: 490 and 47.7 ms on a T4, 102 and 7.5 on an A100 80 GB."""
    own = Deployment(load_spec("llama-3-8b"))
    for accelerator, first, each in [(T4, 490, 47.7), (A100, 102, 7.5)]:
        prefill = floor_of(textbook.prefill(own, 2048), accelerator)
        decode = floor_of(textbook.decode(own, 1, 2048), accelerator)
        assert float(prefill.seconds) * 1e3 == pytest.approx(first, rel=5e-3)
        assert float(decode.seconds) * 1e3 == pytest.approx(each, rel=5e-3)


D, D_FF, VOCAB = 160, 272, 100  # neither divides 128
ATTENTION = Attention(4, 2, 24, 1.0, None)
SPEC = ModelSpec("small", "llama", VOCAB, D, (Layer((ATTENTION,), MLP(D_FF, "silu")),) * 3, 64, False, 1e-6)
SHAPES = [(96, D), (48, D), (48, D), (D, 96), (D_FF, D), (D_FF, D), (D, D_FF)]  # q k v o gate up down


def ceil(n: int, by: int) -> int:
    return -(-n // by)


@pytest.mark.parametrize(
    ("weights", "matrix"),
    [
        ("bf16", lambda rows, cols: 2 * rows * cols),
        ("fp8", lambda rows, cols: rows * cols + 4),
        ("fp8-block", lambda rows, cols: rows * cols + 4 * ceil(rows, 128) * ceil(cols, 128)),
        ("int8", lambda rows, cols: rows * cols + 4 * rows),
        ("int4", lambda rows, cols: rows * cols / 2 + rows * ceil(cols, 128) * 2.5),
        ("nvfp4", lambda rows, cols: rows * cols / 2 + rows * ceil(cols, 16) + 4),
        ("mxfp4", lambda rows, cols: rows * cols / 2 + rows * ceil(cols, 32)),
    ],
)
def test_bytes_of_formats_by_hand(weights: str, matrix: object) -> None:
    """Blocks with their scales and zero points, whole where one is begun; head and embedding in 16 bits."""
    assert callable(matrix)
    found = {each.name: each for each in operators(Deployment(SPEC, uniform(weights)), decodes(1, 9))}
    blocks = sum(found[name].read_bytes for name in ("attention projections", "mlp"))
    assert blocks == pytest.approx(3 * sum(matrix(*shape) for shape in SHAPES))
    assert found["head"].read_bytes == 2 * VOCAB * D
    assert found["embedding"].read_bytes == 2 * D


@pytest.mark.parametrize(
    ("weights", "kind"), [("fp8", "fp8"), ("nvfp4", "fp4"), ("int8", "int8"), ("int4", "bf16")]
)
def test_each_weight_multiplies_at_its_own_peak(weights: str, kind: str) -> None:
    """The head, in 16 bits, at that of BF16; so does attention while keys and values are."""
    peaks = {"bf16": 1e12, "fp8": 2e12, "int8": 3e12, "fp4": 5e12}
    rows, context = 32, 50
    own = Deployment(SPEC, uniform(weights))
    blocks = 2 * rows * 3 * sum(n * k for n, k in SHAPES)
    head = 2 * rows * VOCAB * D
    attention = rows * 3 * 4 * 4 * 24 * (context + 1)
    seconds = floor(own, decodes(rows, context), machine(1e12, **peaks)).compute_s
    assert seconds == pytest.approx(blocks / peaks[kind] + (head + attention) / peaks["bf16"])
    small_keys = floor(replace(own, kv_bytes=1.0), decodes(rows, context), machine(1e12, **peaks)).compute_s
    assert seconds - small_keys == pytest.approx(attention / peaks["bf16"] - attention / peaks["fp8"])
    none_of_its_own = machine(1e12, bf16=1e12)
    assert floor(own, decodes(rows, context), none_of_its_own).compute_s == pytest.approx(
        (blocks + head + attention) / 1e12
    )


def test_layers_that_borrow_keys_need_only_rows_with_logits() -> None:
    """Two layers of four read the keys of earlier ones: a prefill's floor has one row of them, a decode's
    all, and an expectation, as most engines do it, every row."""
    borrowing = replace(ATTENTION, borrows_kv=True)
    layers = tuple(Layer((each,), MLP(D_FF, "silu")) for each in (ATTENTION, ATTENTION, borrowing, borrowing))
    spec = replace(SPEC, layers=layers)
    rows = 70

    def flops(touched: Touched) -> float:
        return sum(float(each.total_flops) for each in operators(Deployment(spec), prefills(rows), touched))

    shared = 2 * sum(n * k for n, k in (SHAPES[0], *SHAPES[3:]))
    dropped = 2 * ((rows - 1) * shared + 4 * 4 * 24 * (rows * (rows + 1) // 2 - rows))
    assert flops("expected") - flops("least") == dropped
    least, expected = (
        operators(Deployment(spec), decodes(3, 50), touched) for touched in ("least", "expected")
    )
    assert [float(each.total_flops) for each in least] == [float(each.total_flops) for each in expected]
    names = [each.name for each in least]
    assert len(names) == len(set(names))
