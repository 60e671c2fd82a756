"""FLOPs against PyTorch's own counter, pairs against counting them one by one, bytes against hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_configs import reference
from torch.utils.flop_counter import FlopCounterMode

from twophase.cost.attention import visible_pairs
from twophase.cost.deployment import Deployment, as_bits
from twophase.cost.operators import Operator, operators
from twophase.cost.pass_ import Pass, Span
from twophase.cost.price import price_of, spans_of
from twophase.model.hf_config import spec_from_config
from twophase.model.mixers import Attention, Rope
from twophase.model.spec import MLP, Layer, ModelSpec


def small(window: int | None = None) -> ModelSpec:
    """d 8, two layers (one with a window), 2 heads of 4 over 1, d_ff 16, 32 tokens."""
    attention = [Attention(2, 1, 4, 0.5, Rope(1e4), window=each) for each in (None, window)]
    layers = tuple(Layer((each,), MLP(16, "silu")) for each in attention)
    return ModelSpec("small", "llama", 32, 8, layers, 64, False, 1e-6)


def made(spec: ModelSpec, pass_: Pass, weights: float = 2.0, kv: float = 2.0) -> dict[str, Operator]:
    own = Deployment(spec, as_bits(weights), kv)
    return {each.name: each for each in operators(own, spans_of(pass_))}


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60)), min_size=1, max_size=5),
    st.none() | st.integers(1, 120),
)
def test_pairs_are_those_that_one_counts(spans: list[tuple[int, int]], window: int | None) -> None:
    new, context = np.array(spans, np.int64).T
    counted = [sum(min(c + row + 1, window or c + row + 1) for row in range(n)) for n, c in spans]
    assert visible_pairs(new, context, window).tolist() == counted


@pytest.mark.filterwarnings("ignore:.*past_key_values:FutureWarning")  # newer ones call it cache
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3_text"])
@pytest.mark.parametrize(("new", "context"), [(24, 0), (5, 24), (1, 24)])
def test_flops_are_pytorchs(family: str, new: int, context: int) -> None:
    """Theirs counts the whole rectangle of scores, ours what a causal row sees. Both: the head on one row."""
    config = {
        "model_type": family,
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
    }
    model = reference(config, "cpu", attn_implementation="eager").eval()
    with torch.no_grad():
        cache = model(torch.zeros(1, context, dtype=torch.long)).past_key_values if context else None
        with FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, new, dtype=torch.long), past_key_values=cache, logits_to_keep=1)
    spec = spec_from_config(config, family, "config")
    counted = made(spec, Pass((Span(0, new, context),)))
    flops = {name: float(each.total_flops) for name, each in counted.items()}
    pairs, rectangle = new * context + new * (new + 1) // 2, new * (new + context)
    assert flops["attention"] == 3 * 4 * 4 * 32 * pairs
    flops["attention"] *= rectangle / pairs
    assert sum(flops.values()) == pytest.approx(counter.get_total_flops(), rel=1e-12)


def test_bytes_by_hand() -> None:
    pass_ = Pass((Span(0, 3, 10), Span(1, 1, 4)))
    counted = made(small(window=6), pass_, weights=2.0, kv=1.0)
    # a token's keys and values: 2·4 elements a layer; the sliding layer reads 5 and 4 of the cached
    assert counted["attention"].read_bytes == 8 * (10 + 4) + 8 * (5 + 4)
    assert counted["attention"].written_bytes == 2 * 8 * 4
    assert counted["embedding"].read_bytes == 4 * 8 * 2
    assert counted["attention projections"].read_bytes == 2 * 2 * (8 * 24)
    assert counted["mlp"].read_bytes == 2 * 2 * (3 * 8 * 16)
    assert counted["head"].read_bytes == 2 * 8 * 32


def test_only_rows_that_want_logits_pay_for_the_head() -> None:
    head = [
        made(small(), Pass((Span(0, 9, 0, logit_rows=wants), Span(1, 1, 5, logit_rows=wants))))["head"]
        for wants in (1, 0)
    ]
    assert [each.total_flops for each in head] == [2 * 2 * 8 * 32, 0]
    assert [each.read_bytes for each in head] == [2 * 8 * 32, 0]


@given(st.integers(1, 200), st.integers(1, 199), st.sampled_from([None, 7, 64]))
def test_chunks_do_the_work_of_the_whole(prompt: int, cut: int, window: int | None) -> None:
    spec, cut = small(window), min(cut, prompt)
    whole = price_of(Deployment(spec))(Pass((Span(0, prompt, 0),)))[0]
    chunks = [Pass((Span(0, cut, 0, logit_rows=int(cut == prompt)),))]
    chunks += [Pass((Span(0, prompt - cut, cut),))] if cut < prompt else []
    assert sum(price_of(Deployment(spec))(each)[0] for each in chunks) == whole


def test_weights_are_read_once_whatever_the_batch() -> None:
    one, many = (Pass(tuple(Span(i, 1, 100) for i in range(count))) for count in (1, 64))
    (flops, bytes_), (flops_64, bytes_64) = map(price_of(Deployment(small())), (one, many))
    weights = 2 * (2 * (8 * 24 + 3 * 8 * 16) + 8 * 32)
    assert flops_64 == 64 * flops
    assert bytes_64 - weights == 64 * (bytes_ - weights)
