"""The cache's size by hand, and what a position leaves in it."""

import numpy as np
import pytest
import torch
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb

from twophase.engine.kv import new_pool, pool_bytes
from twophase.kernels.cache import BLOCK_SIZE, position_and_cache
from twophase.model.mixers import Attention, Rope
from twophase.model.spec import MLP, Layer, ModelSpec

NOTHING = np.zeros(0, np.float32)


def model(rope: Rope | None) -> ModelSpec:
    layer = Layer((Attention(4, 2, 64, 0.125, rope),), MLP(8, "silu"))
    return ModelSpec("three", "llama", 8, 256, (layer,) * 3, 64, False, 1e-6)


@pytest.mark.parametrize(
    ("kv", "token_bytes"),
    # a key or a value of a head: 64 numbers, and a scale for int8
    [("bf16", 64 * 2), ("float32", 64 * 4), ("int8", 64 + 4)],
)
def test_the_pool_is_as_large_as_was_said(kv: str, token_bytes: int) -> None:
    spec = model(Rope(1e4))
    # 3 layers, K and V, 5 blocks of 16 tokens, 2 heads
    assert BLOCK_SIZE == 16
    assert pool_bytes(spec, 5, kv) == 3 * 2 * 5 * 16 * 2 * token_bytes
    assert new_pool(spec, 5, kv, 64).bytes == pool_bytes(spec, 5, kv)


def keys_of(arrays: np.ndarray, block: int) -> np.ndarray:
    """float32 [heads, tokens, dim] of a block of keys, as the layout's description says."""
    return arrays.reshape(-1, 2, 64, 16)[block].transpose(0, 2, 1)


@pytest.mark.parametrize("rope", [None, Rope(1e4), Rope(1e4, share=0.25), Rope(500.0, share=0.5)])
def test_a_share_of_each_head_is_rotated(rope: Rope | None) -> None:
    """Against transformers' rotation of GPT-NeoX, which leaves the rest of a head alone."""
    kv = new_pool(model(rope), 3, "float32", 64).layers[0]
    given = np.random.default_rng(0).standard_normal((2, 8, 64)).astype(np.float32)
    qkv, positions = given.copy().reshape(2, -1), np.array([7, 33])
    slots = np.array([2 * 16 + 0, 1 * 16 + 5])
    position_and_cache(
        qkv,
        4,
        2,
        64,
        NOTHING,
        NOTHING,
        np.float32(1e-6),
        kv.cosines,
        kv.sines,
        positions,
        slots,
        kv.arrays,
        1,
    )
    rotated = int(64 * rope.share) if rope else 0
    expected = torch.from_numpy(given.copy())
    if rope:
        exponents = torch.arange(0, rotated, 2, dtype=torch.float32) / rotated
        angles = torch.from_numpy(positions).float()[:, None] * rope.theta**-exponents
        cosines, sines = (torch.cat([turn(angles)] * 2, -1)[None, :, :] for turn in (torch.cos, torch.sin))
        heads = expected.transpose(0, 1)[None]
        q, k = apply_rotary_pos_emb(heads[:, :4, :, :rotated], heads[:, 4:6, :, :rotated], cosines, sines)
        heads[:, :4, :, :rotated], heads[:, 4:6, :, :rotated] = q, k
    np.testing.assert_allclose(qkv.reshape(2, 8, 64), expected.numpy(), atol=1e-5)
    keys = kv.arrays.k
    np.testing.assert_array_equal(keys_of(keys, 2)[:, 0], qkv.reshape(2, 8, 64)[0, 4:6])
    np.testing.assert_array_equal(keys_of(keys, 1)[:, 5], qkv.reshape(2, 8, 64)[1, 4:6])
    assert not keys_of(keys, 2)[:, 1:].any()  # a begun block is cleared
