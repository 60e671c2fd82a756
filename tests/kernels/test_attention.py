"""Attention over paged KV against a plain softmax in float64, whole, in chunks and token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.kernels.attention import QUERY_ROWS, attend
from twophase.kernels.cache import BLOCK_SIZE, KVArrays, position_and_cache
from twophase.kernels.packing import padded
from twophase.kernels.tile import activation_dtype

NOTHING = np.zeros(0, np.float32)
ENDLESS = 1 << 30


def run_in_chunks(qkv, heads, kv_heads, dim, window, compute, chunks, threads=2):
    """[tokens, heads, dim], each chunk a pass of its own over a pool of scattered, dirty blocks."""
    tokens, width = len(qkv), padded(dim)
    blocks = -(-tokens // BLOCK_SIZE) + 3
    table = np.random.default_rng(7).permutation(blocks).astype(np.int64)
    size = blocks * kv_heads * width * BLOCK_SIZE
    k_pool, v_pool = (
        np.full(size, 0x7FC0, np.uint16) if compute == "bf16" else np.full(size, np.nan, np.float32)
        for _ in range(2)
    )
    kv = KVArrays(k_pool, v_pool, NOTHING, NOTHING)
    cosines, sines = np.ones((tokens, dim // 2), np.float32), np.zeros((tokens, dim // 2), np.float32)
    out = np.zeros((tokens, heads * width), activation_dtype(compute))
    start = 0
    for chunk in chunks:
        positions = np.arange(start, start + chunk)
        slots = table[positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
        rows = np.ascontiguousarray(qkv[start : start + chunk])
        position_and_cache(
            rows, heads, kv_heads, dim, NOTHING, NOTHING, np.float32(1e-6), cosines, sines, positions, slots,
            kv, threads,
        )  # fmt: skip
        step = max(1, QUERY_ROWS * kv_heads // heads)
        items = [(0, i, min(step, chunk - i), start + i) for i in range(0, chunk, step)]
        attend(
            rows, heads, kv_heads, np.float32(dim**-0.5), window, np.float32(0), np.array(items, np.int64),
            table[None], kv, out[start : start + chunk], threads,
        )  # fmt: skip
        start += chunk
    if out.dtype == np.uint16:
        out = (out.astype(np.uint32) << 16).view(np.float32)
    return out.reshape(tokens, heads, width)[:, :, :dim]


def plain_attention(qkv, heads, kv_heads, dim, window):
    tokens = len(qkv)
    split = qkv.reshape(tokens, heads + 2 * kv_heads, -1)[:, :, :dim].astype(np.float64)
    q, k, v = split[:, :heads], split[:, heads : heads + kv_heads], split[:, heads + kv_heads :]
    k, v = (np.repeat(each, heads // kv_heads, axis=1) for each in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) * dim**-0.5
    at = np.arange(tokens)
    seen = (at[None] <= at[:, None]) & (at[None] > at[:, None] - window)
    weights = np.exp(np.where(seen, scores, -np.inf))
    return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)


def random_qkv(tokens, heads, kv_heads, dim):
    qkv = np.zeros((tokens, heads + 2 * kv_heads, padded(dim)), np.float32)
    qkv[:, :, :dim] = np.random.default_rng(1).standard_normal((tokens, heads + 2 * kv_heads, dim))
    return qkv.reshape(tokens, -1)


SHAPES = [(4, 2, 32, ENDLESS), (4, 1, 64, 70), (3, 1, 40, 16), (2, 2, 128, 300)]


@pytest.mark.parametrize(("heads", "kv_heads", "dim", "window"), SHAPES)
@pytest.mark.parametrize(("compute", "error"), [("float32", 3e-6), ("bf16", 2e-2)])
def test_attention_equals_softmax(heads, kv_heads, dim, window, compute, error):
    qkv = random_qkv(300, heads, kv_heads, dim)
    got = run_in_chunks(qkv, heads, kv_heads, dim, window, compute, [300])
    assert np.abs(got - plain_attention(qkv, heads, kv_heads, dim, window)).max() < error


@pytest.mark.parametrize("compute", ["float32", "bf16"])
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_any_chunks_give_the_same_bits(compute, data):
    heads, kv_heads, dim, window = data.draw(st.sampled_from(SHAPES))
    qkv = random_qkv(290, heads, kv_heads, dim)
    cuts = sorted(data.draw(st.sets(st.integers(1, 289), max_size=12)))
    chunks = np.diff([0, *cuts, 290]).tolist()
    whole = run_in_chunks(qkv, heads, kv_heads, dim, window, compute, [290])
    assert np.array_equal(run_in_chunks(qkv, heads, kv_heads, dim, window, compute, chunks, threads=1), whole)
