"""Attention in each of its forms against counting key by key, and published shapes by hand."""

from typing import Any

import numpy as np
import pytest
from counted_singly import absorbed, decompressed, index_pairs, pairs, seen
from counted_singly import flops as flops_singly
from hypothesis import given
from hypothesis import strategies as st

from twophase.cost.attention import Mixing, chunked_pairs, compressed_pairs, mixing, visible_pairs
from twophase.model.mixers import (
    Attending,
    Attention,
    CompressedAttention,
    GatedDelta,
    Indexer,
    KimiDelta,
    LatentAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    Recurrent,
    ShortConvolution,
)

NEW, CONTEXT = st.integers(1, 40), st.integers(0, 80)
SMALL = st.integers(1, 50)
INDEXERS = st.none() | st.builds(Indexer, st.integers(1, 4), st.integers(1, 8), st.none())
DEEPSEEK_V3 = LatentAttention(128, 1536, 512, 128, 64, 128, 1.0, None)


@st.composite
def attentions(draw: st.DrawFn) -> Attention:
    forms: list[dict[str, Any]] = [
        {},
        {"window": draw(SMALL)},
        {"chunk": draw(SMALL)},
        {"top_k": draw(SMALL), "indexer": draw(INDEXERS)},
    ]
    fields = draw(st.sampled_from(forms))
    group, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Attention(group * kv_heads, kv_heads, 3, 1.0, None, v_dim=draw(st.none() | SMALL), **fields)


@st.composite
def latents(draw: st.DrawFn) -> LatentAttention:
    rank, nope, rope, v = (draw(st.integers(1, 9)) for _ in range(4))
    sparse: dict[str, Any] = {"top_k": draw(SMALL), "indexer": draw(INDEXERS)} if draw(st.booleans()) else {}
    return LatentAttention(draw(st.integers(1, 4)), None, rank, nope, rope, v, 1.0, None, **sparse)


@st.composite
def compressed(draw: st.DrawFn) -> CompressedAttention:
    ratio = draw(st.integers(0, 6))
    picks = ratio > 0 and draw(st.booleans())
    return CompressedAttention(
        *(draw(st.integers(1, 4)), 6, 3, 1, 2, draw(st.integers(1, 30)), ratio, 2),
        top_k=draw(st.integers(1, 12)) if picks else None,
        indexer=draw(INDEXERS) if picks else None,
    )


def one(own: Attending | Recurrent, new: int, context: int, kv_bytes: float = 1.0, tp: int = 1) -> Mixing:
    return mixing(own, np.array([new]), np.array([context]), kv_bytes, tp)


@given(NEW, CONTEXT, SMALL, st.none() | SMALL)
def test_pairs_of_every_form(new: int, context: int, size: int, top_k: int | None) -> None:
    rows = range(context, context + new)
    spans = np.array([new]), np.array([context])
    assert visible_pairs(*spans, size) == sum(min(row + 1, size) for row in rows)
    assert chunked_pairs(*spans, size) == sum(row % size + 1 for row in rows)
    entries = [sum((group + 1) * size <= row + 1 for group in range(row + 1)) for row in rows]
    assert compressed_pairs(*spans, size, top_k) == sum(min(n, top_k or n) for n in entries)


@given(attentions() | latents() | compressed(), NEW, CONTEXT)
def test_flops_are_those_of_every_key_that_is_seen(own: Attending, new: int, context: int) -> None:
    assert one(own, new, context).flops == flops_singly(own, new, context)


@given(attentions() | latents() | compressed(), NEW, CONTEXT, st.integers(1, 39))
def test_chunks_of_a_prefill_see_as_much_as_the_whole(
    own: Attending, new: int, context: int, cut: int
) -> None:
    cut = min(cut, new)
    assert pairs(own, cut, context) + pairs(own, new - cut, context + cut) == pairs(own, new, context)
    if not isinstance(own, LatentAttention):  # which may choose the other form, or widens its cache again
        apart = one(own, cut, context).flops + one(own, new - cut, context + cut).flops
        assert apart == one(own, new, context).flops


def cached_that_are_seen(own: Attention, first: int, context: int) -> int:
    """Of the tokens before `context`, those that the row at `first` can see."""
    keys = range(context)
    if own.window:
        keys = range(max(0, first - own.window + 1), context)
    if own.chunk:
        keys = range(max(0, first // own.chunk * own.chunk), context)
    return len(keys)


@given(attentions(), NEW, CONTEXT)
def test_what_is_read_and_written_is_what_some_row_sees(own: Attention, new: int, context: int) -> None:
    """Of keys that are picked, each row must have its number of, and may itself be one."""
    entry = own.kv_heads * (own.head_dim + own.value_dim)
    needed = max(seen(own, context) - 1, 0) if own.top_k else cached_that_are_seen(own, context, context)
    after = context + new
    kept = cached_that_are_seen(own, after, after)
    index = own.indexer.dim + 4 if own.indexer else 0
    made = one(own, new, context)
    assert made.read_bytes == needed * entry + context * index
    assert made.written_bytes == min(kept, new) * entry + new * index


@given(latents(), NEW, CONTEXT)
def test_latent_attention_moves_one_vector_a_token(own: LatentAttention, new: int, context: int) -> None:
    index = own.indexer.dim + 4 if own.indexer else 0
    needed = seen(own, context) - 1
    for tp in (1, 2, 8):  # whole on each device
        made = one(own, new, context, kv_bytes=2.0, tp=tp)
        assert made.read_bytes == 2 * needed * (own.kv_rank + own.rope_dim) + context * index
        assert made.written_bytes == new * (2 * (own.kv_rank + own.rope_dim) + index)


@given(compressed(), NEW, CONTEXT)
def test_compressed_attention_moves_its_window_and_whole_entries(
    own: CompressedAttention, new: int, context: int
) -> None:
    entries, after = ((n // own.ratio if own.ratio else 0) for n in (context, context + new))
    first = [group for group in range(context + 1) if own.ratio and (group + 1) * own.ratio <= context + 1]
    cached = len([group for group in first if (group + 1) * own.ratio <= context])
    own_entry = len(first) - cached
    read = min(cached, (own.top_k or len(first)) - own_entry) if own.top_k else cached
    index = own.indexer.dim + 4 if own.indexer else 0
    made = one(own, new, context)
    window = own.window - 1
    assert made.read_bytes == (min(context, window) + read) * own.head_dim + entries * index
    assert (
        made.written_bytes == (min(new, window) + after - entries) * own.head_dim + (after - entries) * index
    )


def test_mla_of_deepseek_v3() -> None:
    """Prefill 2·H·(nope + rope + v)·S²/2, decode 2·H·C·(2·rank + rope); a row sees itself too."""
    prompt, context = 4096, 8192
    prefill, decode = one(DEEPSEEK_V3, prompt, 0), one(DEEPSEEK_V3, 1, context, kv_bytes=2.0)
    assert prefill.flops == 2 * 128 * (128 + 64 + 128) * prompt * (prompt + 1) // 2
    assert prefill.flops == pytest.approx(2 * 128 * 320 * prompt**2 / 2, rel=1 / 4000)
    assert decode.flops == 2 * 128 * (context + 1) * (2 * 512 + 64)
    assert decode.read_bytes == context * 576 * 2


def test_the_form_of_mla_that_is_cheaper_counts() -> None:
    """Absorbed, a pair costs 2·H·1088 in place of 2·H·320; decompressed, a cached token 2·512·H·256 more."""
    for new, context in [(1, 100), (16, 4096), (167, 4096), (168, 4096), (2048, 4096)]:
        both = sum(range(context + 1, context + new + 1))
        forms = absorbed(DEEPSEEK_V3, both), decompressed(DEEPSEEK_V3, both, context)
        assert one(DEEPSEEK_V3, new, context).flops == min(forms)
        # n·C + n·(n + 1)/2 pairs at 1088 - 320 against C·512·256: 167.4 rows
        assert (forms[0] < forms[1]) == (new <= 167)


def test_the_indexer_of_deepseek_v32() -> None:
    """64 heads of 128 score every token, 2,048 of them are attended to: at 64k, 27 times fewer than all."""
    own = LatentAttention(128, 1536, 512, 128, 64, 128, 1.0, None, top_k=2048, indexer=Indexer(64, 128, 1536))
    made = one(own, 1, 65_535, kv_bytes=2.0)
    assert index_pairs(own, 1, 65_535) == 65_536
    assert made.flops == 2 * 128 * 2048 * 1088 + 2 * 64 * 128 * 65_536
    assert made.read_bytes == 2047 * 576 * 2 + 65_535 * (128 + 4)


@given(attentions(), st.integers(1, 9), CONTEXT)
def test_devices_share_heads_and_hold_one_key_at_the_least(own: Attention, tp: int, context: int) -> None:
    whole, part = one(own, 1, context), one(own, 1, context, tp=tp)
    index = own.indexer.dim + 4 if own.indexer else 0
    heads = -(-own.heads // tp) / own.heads
    kv_heads = -(-own.kv_heads // tp) / own.kv_heads
    scored = 2 * own.indexer.heads * own.indexer.dim * (context + 1) if own.indexer else 0
    assert part.flops - scored == pytest.approx((whole.flops - scored) * heads)
    kept = whole.read_bytes - context * index
    assert part.read_bytes - context * index == pytest.approx(kept * kv_heads)


# A state's elements, what its convolution is wide, its taps; and how often a step multiplies each element.
RECURRENCES: list[tuple[Recurrent, int, int, int, int]] = [
    (GatedDelta(2, 4, 8, 12, 4), 4 * 8 * 12, 2 * 2 * 8 + 4 * 12, 4, 6),  # S·k, + k·v, S·q
    (KimiDelta(4, 8, 12, 4), 4 * 8 * 12, 4 * (8 + 8 + 12), 4, 6),
    (Mamba2(8, 12, 2, 10, 4), 8 * 12 * 10, 8 * 12 + 2 * 2 * 10, 4, 4),  # + x·B, C·h
    (Mamba(96, 10, 6, 4), 96 * 10, 96, 4, 4),
    (LightningAttention(4, 20), 4 * 20 * 20, 0, 1, 4),  # + k·v, q·S
    (ShortConvolution(48, 3), 0, 48, 3, 0),
]


@pytest.mark.parametrize(("own", "state", "width", "taps", "steps"), RECURRENCES)
@pytest.mark.parametrize(("new", "context"), [(1, 0), (1, 7), (1, 70_000), (24, 0), (24, 7)])
def test_a_recurrence_reads_and_writes_its_state_once(
    own: Recurrent, state: int, width: int, taps: int, steps: int, new: int, context: int
) -> None:
    """In float32, and what its convolution has yet to see in 16 bits; whatever the context."""
    held = state * 4 + width * (taps - 1) * 2
    made = one(own, new, context)
    assert made.flops == new * (steps * state + 2 * width * taps)
    assert made.read_bytes == (held if context else 0)
    assert made.written_bytes == held
