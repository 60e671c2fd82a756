"""A sweep as one array is the loop over its points."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.cost.communication import exchanges
from twophase.cost.deployment import Deployment
from twophase.cost.operators import Touched
from twophase.cost.parallel import Plan
from twophase.cost.roofline import floor
from twophase.cost.spans import Spans, decodes, prefills
from twophase.hardware.catalogue import accelerators
from twophase.model.catalogue import load_spec
from twophase.model.quantization import uniform

ACCELERATORS = list(accelerators().values())
H100 = accelerators()["h100-sxm"]
OWN = [
    Deployment(load_spec("llama-3.1-8b")),
    Deployment(load_spec("deepseek-v3"), uniform("fp8-block"), plan=Plan(tp=8, dp=2, ep=16)),
    Deployment(load_spec("gemma-4-e2b"), uniform("int4"), kv_bytes=1.0, plan=Plan(pp=2)),
    Deployment(load_spec("gpt-oss-20b"), uniform("mxfp4"), plan=Plan(tp=4)),
    Deployment(load_spec("qwen3-next-80b-a3b"), plan=Plan(tp=2)),
    Deployment(load_spec("deepseek-v3.2"), uniform("nvfp4")),
]
TOKENS = st.lists(st.integers(1, 200_000), min_size=1, max_size=4)
TOUCHED = st.sampled_from(["least", "expected"])


def same(own: Deployment, every: Spans, singles: list[Spans], touched: Touched) -> None:
    together = floor(own, every, H100, touched)
    apart = [floor(own, each, H100, touched) for each in singles]
    for name in ("compute_s", "memory_s", "seconds", "flops", "bytes"):
        found = getattr(together, name).ravel().tolist()
        assert found == pytest.approx([float(getattr(each, name)) for each in apart], rel=1e-12)
    sent = [exchanges(own, each, H100) for each in singles]
    for i, exchange in enumerate(exchanges(own, every, H100)):
        assert exchange.seconds.ravel().tolist() == pytest.approx([float(each[i].seconds) for each in sent])


@given(st.sampled_from(OWN), TOKENS, TOKENS, TOUCHED)
def test_a_grid_of_decodes(
    own: Deployment, batches: list[int], contexts: list[int], touched: Touched
) -> None:
    every = decodes(np.array(batches)[:, None], np.array(contexts))
    singles = [decodes(batch, context) for batch in batches for context in contexts]
    assert floor(own, every, H100).seconds.shape == (len(batches), len(contexts))
    same(own, every, singles, touched)


@given(st.sampled_from(OWN), TOKENS, st.integers(0, 50_000), st.integers(1, 9), TOUCHED)
def test_a_row_of_prefills(
    own: Deployment, prompts: list[int], context: int, sequences: int, touched: Touched
) -> None:
    singles = [prefills(prompt, context, sequences) for prompt in prompts]
    same(own, prefills(prompts, context, sequences), singles, touched)


@given(st.sampled_from(OWN), st.integers(1, 500), st.integers(1, 500), st.integers(0, 5000))
def test_like_spans_are_counted_together(own: Deployment, count: int, new: int, context: int) -> None:
    """`count` sequences alike are those sequences one by one."""
    ones = np.ones(count, np.int64)
    apart = Spans(new * ones, context * ones, ones, ones)
    together, singly = floor(own, prefills(new, context, count), H100), floor(own, apart, H100)
    assert float(together.flops) == pytest.approx(float(singly.flops), rel=1e-12)
    assert float(together.bytes) == pytest.approx(float(singly.bytes), rel=1e-12)


def test_shapes_broadcast() -> None:
    own = OWN[0]
    assert floor(own, decodes(1, 100), H100).seconds.shape == ()
    assert floor(own, decodes([1, 2, 3], 100), H100).seconds.shape == (3,)
    grid = floor(own, decodes(np.ones((5, 1, 1), int), np.ones((4, 1), int), [1, 2, 3]), H100)
    assert grid.seconds.shape == grid.bytes.shape == (5, 4, 3)


def test_a_million_points() -> None:
    """Accelerators x batches x contexts, each accelerator's as one array: a third of a second."""
    own, count = OWN[3], -(-1_000_000 // len(ACCELERATORS))
    batches, contexts = np.arange(1, 101), np.linspace(1, 131_072, -(-count // 100)).astype(np.int64)
    began = time.perf_counter()
    found = [floor(own, decodes(batches[:, None], contexts), each).seconds for each in ACCELERATORS]
    assert sum(each.size for each in found) >= 1_000_000
    assert all(np.isfinite(each).all() and (each > 0).all() for each in found)
    assert time.perf_counter() - began < 10
