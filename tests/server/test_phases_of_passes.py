"""A pass's seconds, FLOPs and bytes are shared between the phases, and nothing is lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.cost.deployment import Deployment
from twophase.cost.pass_ import Pass, Span
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_spec
from twophase.server.phase_meter import PhaseMeter
from twophase.server.phases import Costs, is_decode, phases_of, price_on

SPEC, GPU = load_spec("llama-3.1-8b"), load_accelerator("h100-sxm")
PRICE = price_on(Deployment(SPEC), GPU)
# config.json: 32 layers, d 4096, 32 heads of 128, 8 KV heads, MLP 14336, vocabulary 128256
LAYERS = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
HEAD = 4096 * 128256
KV_BYTES = 2 * 32 * 8 * 128 * 2
GATHER = 4096 * 2


def decode(context: int) -> Span:
    return Span(0, 1, context)


def test_a_decode_alone_is_decode_and_all_of_it() -> None:
    prefill, found = phases_of([Pass((decode(1000),))], [[1]], [0.02], PRICE)
    assert (prefill.tokens, prefill.seconds, prefill.flops, prefill.bytes) == (0, 0, 0, 0)
    assert (found.tokens, found.seconds) == (1, 0.02)
    assert found.bytes == 2 * (LAYERS + HEAD) + GATHER + 1001 * KV_BYTES
    assert found.flops == 2 * (LAYERS + HEAD) + 32 * 4 * 32 * 128 * 1001
    assert found.floor_s == pytest.approx(found.bytes / GPU.bandwidth)


def test_in_a_mixed_pass_the_weights_are_decodes() -> None:
    chunk = Span(1, 512, 256, logit_rows=0)
    prefill, found = phases_of([Pass((decode(1000), chunk))], [[1, 900]], [0.03], PRICE)
    assert found.bytes == 2 * (LAYERS + HEAD) + GATHER + 1001 * KV_BYTES
    assert prefill.bytes == 512 * GATHER + (256 + 512) * KV_BYTES
    pairs = 512 * 256 + 512 * 513 // 2
    assert prefill.flops == 512 * 2 * LAYERS + 32 * 4 * 32 * 128 * pairs
    alone = phases_of([Pass((chunk,))], [[900]], [1.0], PRICE)[0].floor_s
    assert found.seconds == pytest.approx(0.03 * found.memory_s / (found.memory_s + alone))
    assert prefill.seconds + found.seconds == pytest.approx(0.03)
    # both are as far from the floor of the whole
    assert prefill.floor_s / prefill.seconds == pytest.approx(found.floor_s / found.seconds)


def test_what_counts_as_decode() -> None:
    assert is_decode(Span(0, 1, 5), 5) and is_decode(Span(0, 4, 9, logit_rows=4), 5)  # a verification
    assert not is_decode(Span(0, 1, 0), 1)  # a prompt of one token
    assert not is_decode(Span(0, 1, 5), 6)  # a prompt's last
    assert not is_decode(Span(0, 4, 5), 5) and not is_decode(Span(0, 1, 5, logit_rows=0), 5)


SPANS = st.builds(Span, st.just(0), st.integers(1, 300), st.integers(0, 900), st.just(()), st.integers(0, 1))
PASSES = st.lists(st.builds(Pass, st.lists(SPANS, min_size=1, max_size=4).map(tuple)), min_size=1, max_size=5)


@settings(max_examples=25)
@given(PASSES)
def test_passes_together_are_the_sum_of_each(passes: list[Pass]) -> None:
    seconds = [0.01 * (i + 1) for i in range(len(passes))]
    prompts = [[400] * len(each.spans) for each in passes]
    together = phases_of(passes, prompts, seconds, PRICE)
    for phase in (0, 1):
        alone = [
            phases_of([each], [own], [took], PRICE)[phase]
            for each, own, took in zip(passes, prompts, seconds, strict=True)
        ]
        for name in ("tokens", "seconds", "flops", "bytes", "compute_s", "memory_s", "floor_s"):
            assert getattr(together[phase], name) == pytest.approx(sum(getattr(each, name) for each in alone))
    assert together[0].seconds + together[1].seconds == pytest.approx(sum(seconds))
    assert together[0].tokens + together[1].tokens == sum(each.rows for each in passes)


def test_the_window_forgets_and_the_total_does_not() -> None:
    def price(spans):
        rows = (spans.new * spans.count).sum(-1).astype(np.float64)
        return Costs(rows, rows, rows, rows, rows)

    meter = PhaseMeter(price)
    for second in range(100):
        meter.passed(Pass((decode(10),)), [10], 0.5, float(second))
    (_, total), (_, recent) = meter.read(99.5)
    assert (total.tokens, total.seconds) == (100, 50.0)
    assert 8 <= recent.tokens <= 14
    (_, total), (_, recent) = meter.read(200.0)
    assert (total.tokens, recent.tokens, recent.seconds) == (100, 0, 0)
