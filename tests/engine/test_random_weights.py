import numpy as np
import pytest

from twophase.engine.bf16 import from_bf16
from twophase.engine.weights import random_weights
from twophase.model.catalogue import load_spec

SPEC = load_spec("qwen3-0.6b")


def test_shapes_are_the_models() -> None:
    """Hugging Face's Qwen3-0.6B has 596,049,920 parameters with tied embeddings."""
    source = random_weights(SPEC)
    assert source.kind == "random"
    assert sum(np.prod(stored.shape) for stored in source.stored.values()) == 596_049_920
    for name in ("embedding", "layers.0.k", "layers.27.down", "layers.3.q_norm"):
        assert source.tensor(name).shape == source.stored[name].shape


def test_values_are_normal_finite_and_differ() -> None:
    source = random_weights(SPEC)
    q, k = (from_bf16(source.tensor(f"layers.5.{name}")) for name in "qk")
    assert q.std() == pytest.approx(0.02, rel=0.01)
    assert abs(q.mean()) < 1e-4
    assert np.isfinite(q).all()
    assert np.abs(q[q != 0]).min() > np.finfo(np.float32).tiny
    assert len(np.unique(q[:, 0])) > 500  # rows aren't copies of one another
    assert not np.array_equal(q[: len(k)], k)
    assert (source.tensor("layers.5.attention_norm") == 1).all()


def test_rows_and_seeds() -> None:
    source = random_weights(SPEC, seed=1)
    whole = source.tensor("layers.1.o")
    np.testing.assert_array_equal(source.tensor("layers.1.o", slice(700, 900)), whole[700:900])
    np.testing.assert_array_equal(random_weights(SPEC, seed=1).tensor("layers.1.o"), whole)
    assert not np.array_equal(random_weights(SPEC, seed=2).tensor("layers.1.o"), whole)
