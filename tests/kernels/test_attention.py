"""Attention over paged KV against a plain softmax in float64, whole, in chunks and token by token."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.kernels.attention import QUERY_ROWS, attend
from twophase.kernels.cache import BLOCK_SIZE, KVArrays, position_and_cache
from twophase.kernels.packing import padded
from twophase.kernels.tile import activation_dtype

NOTHING = np.zeros(0, np.float32)
ENDLESS = 1 << 30
KINDS = {"float32": np.float32, "bf16": np.uint16, "int8": np.int8}
FORMATS = [
    ("float32", "float32"),
    ("bf16", "bf16"),
    ("bf16", "int8"),
    ("float32", "bf16"),
    ("float32", "int8"),
]


def dirty_pool(blocks, kv_heads, width, kv):
    """As earlier owners may have left it: NaN wherever there is one."""
    size, scales = blocks * kv_heads * width * BLOCK_SIZE, blocks * kv_heads * BLOCK_SIZE
    fill = {"float32": np.nan, "bf16": 0x7FC0, "int8": 77}[kv]
    pools = [np.full(size, fill, KINDS[kv]) for _ in range(2)]
    return KVArrays(*pools, *(np.full(scales if kv == "int8" else 0, np.nan, np.float32) for _ in range(2)))


def items_of(chunk, start, heads, kv_heads, span=0, row=0):
    step = max(1, QUERY_ROWS * kv_heads // heads)
    return [(span, row + i, min(step, chunk - i), start + i) for i in range(0, chunk, step)]


def as_float32(x):
    return (x.astype(np.uint32) << 16).view(np.float32) if x.dtype == np.uint16 else x


def run_in_chunks(qkv, shape, formats, chunks, threads=2):
    """[tokens, heads, dim], each chunk a pass of its own over a pool of scattered, dirty blocks."""
    heads, kv_heads, dim, window, softcap = shape
    compute, kv_format = formats
    tokens, width = len(qkv), padded(dim)
    blocks = -(-tokens // BLOCK_SIZE) + 3
    table = np.random.default_rng(7).permutation(blocks).astype(np.int64)
    kv = dirty_pool(blocks, kv_heads, width, kv_format)
    unturned = np.zeros((tokens, 0), np.float32)
    out = np.zeros((tokens, heads * width), activation_dtype(compute))
    start = 0
    for chunk in chunks:
        positions = np.arange(start, start + chunk)
        slots = table[positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
        rows = np.ascontiguousarray(qkv[start : start + chunk])
        position_and_cache(
            rows, heads, kv_heads, dim, NOTHING, NOTHING, np.float32(1e-6), unturned, unturned, positions,
            slots, kv, threads,
        )  # fmt: skip
        attend(
            rows, heads, kv_heads, np.float32(dim**-0.5), window, np.float32(softcap),
            np.array(items_of(chunk, start, heads, kv_heads), np.int64), table[None], kv,
            out[start : start + chunk], threads,
        )  # fmt: skip
        start += chunk
    return as_float32(out).reshape(tokens, heads, width)[:, :, :dim]


def plain_attention(qkv, shape):
    heads, kv_heads, dim, window, softcap = shape
    tokens = len(qkv)
    split = qkv.reshape(tokens, heads + 2 * kv_heads, -1)[:, :, :dim].astype(np.float64)
    q, k, v = split[:, :heads], split[:, heads : heads + kv_heads], split[:, heads + kv_heads :]
    k, v = (np.repeat(each, heads // kv_heads, axis=1) for each in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) * dim**-0.5
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    at = np.arange(tokens)
    seen = (at[None] <= at[:, None]) & (at[None] > at[:, None] - window)
    weights = np.exp(np.where(seen, scores, -np.inf))
    return np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)


def random_qkv(tokens, shape, seed=1, spread=1.0):
    heads, kv_heads, dim = shape[:3]
    qkv = np.zeros((tokens, heads + 2 * kv_heads, padded(dim)), np.float32)
    qkv[:, :, :dim] = np.random.default_rng(seed).normal(0, spread, (tokens, heads + 2 * kv_heads, dim))
    return qkv.reshape(tokens, -1)


# heads, KV heads, head_dim, window, softcap: one row a KV head, two, four, six, and more than a tile takes
SHAPES = [
    (4, 2, 32, ENDLESS, 0),
    (4, 1, 64, 70, 0),
    (3, 1, 40, 16, 0),
    (2, 2, 128, 300, 0),
    (6, 1, 32, ENDLESS, 5),
    (20, 1, 16, 200, 0),
    (2, 1, 256, 130, 2),
]
# bf16 rounds values of up to 4 by 2^-9, in keys and in values; int8 by a 254th of a head's largest
ERRORS = {
    ("float32", "float32"): 3e-6,
    ("bf16", "bf16"): 2e-2,
    ("bf16", "int8"): 6e-2,
    ("float32", "bf16"): 2e-2,
    ("float32", "int8"): 6e-2,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("formats", FORMATS, ids="-".join)
def test_attention_equals_softmax(shape, formats):
    qkv = random_qkv(300, shape)
    got = run_in_chunks(qkv, shape, formats, [300])
    error = np.abs(got - plain_attention(qkv, shape))
    assert error.max() < ERRORS[formats]
    assert error.mean() < ERRORS[formats] / 10


def test_attention_equals_torchs():
    heads, kv_heads, dim = 8, 2, 64
    shape = (heads, kv_heads, dim, ENDLESS, 0)
    qkv = random_qkv(500, shape, seed=3)
    split = torch.from_numpy(qkv).reshape(500, heads + 2 * kv_heads, dim).transpose(0, 1)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        split[:heads],
        split[heads : heads + kv_heads],
        split[heads + kv_heads :],
        is_causal=True,
        enable_gqa=True,
    )
    got = run_in_chunks(qkv, shape, ("float32", "float32"), [500])
    assert np.abs(got - theirs.transpose(0, 1).numpy()).max() < 3e-6


@pytest.mark.parametrize("formats", FORMATS, ids="-".join)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_any_chunks_give_the_same_bits(formats, data):
    shape = data.draw(st.sampled_from(SHAPES))
    qkv = random_qkv(290, shape)
    cuts = sorted(data.draw(st.sets(st.integers(1, 289), max_size=12)))
    chunks = np.diff([0, *cuts, 290]).tolist()
    whole = run_in_chunks(qkv, shape, formats, [290])
    assert np.array_equal(run_in_chunks(qkv, shape, formats, chunks, threads=1), whole)


def cached(qkv, tables, lengths, shape, kv_format):
    """Several sequences, one behind another in qkv, written to a pool."""
    heads, kv_heads, dim = shape[:3]
    kv = dirty_pool(tables.size, kv_heads, padded(dim), kv_format)
    positions = np.concatenate([np.arange(length) for length in lengths])
    owners = np.repeat(np.arange(len(lengths)), lengths)
    slots = tables[owners, positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    unturned = np.zeros((max(lengths), 0), np.float32)
    position_and_cache(
        qkv,
        heads,
        kv_heads,
        dim,
        NOTHING,
        NOTHING,
        np.float32(1e-6),
        unturned,
        unturned,
        positions,
        slots,
        kv,
        2,
    )
    return kv


@pytest.mark.parametrize("formats", FORMATS[:3], ids="-".join)
@pytest.mark.parametrize("shape", [(4, 1, 64, ENDLESS, 0), (2, 1, 32, 600, 3), (4, 2, 32, ENDLESS, 0)])
def test_a_row_is_the_same_alone_in_a_batch_and_split_over_threads(shape, formats):
    """Decodes, a verification and a chunk of several sequences in one pass, and each for itself."""
    heads, kv_heads, dim, window, softcap = shape
    compute, kv_format = formats
    lengths, news = [2100, 700, 33, 1500, 400], [1, 3, 1, 1, 200]
    width = padded(dim)
    qkv = random_qkv(sum(lengths), shape, seed=5)
    most = -(-max(lengths) // BLOCK_SIZE)
    tables = np.random.default_rng(2).permutation(most * len(lengths)).reshape(len(lengths), -1)
    kv = cached(qkv, tables, lengths, shape, kv_format)
    ends = np.cumsum(lengths)
    rows = np.concatenate([qkv[end - new : end] for end, new in zip(ends, news, strict=True)])
    starts = np.cumsum([0, *news])

    def run(spans, threads):
        out = np.zeros((len(rows), heads * width), activation_dtype(compute))
        items = [
            item
            for s in spans
            for item in items_of(news[s], lengths[s] - news[s], heads, kv_heads, s, starts[s])
        ]
        attend(
            rows, heads, kv_heads, np.float32(dim**-0.5), window, np.float32(softcap),
            np.array(items, np.int64), tables, kv, out, threads,
        )  # fmt: skip
        return as_float32(out)

    together = run(range(5), 1)
    assert np.array_equal(run(range(5), 2), together)
    assert np.array_equal(run([4, 2, 0, 3, 1], 7), together)
    for s in range(5):
        mine = slice(starts[s], starts[s + 1])
        for threads in (1, 2, 16):  # a lone long decode is cut into pieces
            assert np.array_equal(run([s], threads)[mine], together[mine])
    for s in range(5):
        own = qkv[ends[s] - lengths[s] : ends[s]]
        split = plain_attention(own, shape)[-news[s] :].reshape(news[s], heads, dim)
        got = together[starts[s] : starts[s + 1]].reshape(news[s], heads, width)[:, :, :dim]
        assert np.abs(got - split).max() < ERRORS[formats]


def test_int8_keeps_a_127th_of_each_heads_largest():
    """Values of one token alone come back as they were rounded: its own weight is 1."""
    shape = (1, 1, 64, 1, 0)
    qkv = random_qkv(40, shape, spread=30.0)
    qkv[5, 128:] = 0
    got = run_in_chunks(qkv, shape, ("float32", "int8"), [40])[:, 0]
    values = qkv[:, 128:].astype(np.float64)
    steps = np.abs(values).max(1, keepdims=True) / 127
    assert np.all(np.abs(got - values) <= steps * 0.5 * (1 + 1e-5))
    assert np.all(got[5] == 0)


@pytest.mark.parametrize("kv_format", ["float32", "bf16", "int8"])
def test_what_is_not_a_number_is_seen(kv_format):
    shape = (2, 1, 32, ENDLESS, 0)
    qkv = random_qkv(40, shape)
    qkv[20, 64] = np.nan  # of a key
    got = run_in_chunks(qkv, shape, ("float32", kv_format), [40])
    assert np.isfinite(got[:20]).all()
    assert np.isnan(got[20:]).any(axis=(1, 2)).all()
