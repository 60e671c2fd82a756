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


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("qwen3-30b-a3b", 30_532_122_624),
        ("mixtral-8x7b", 46_702_792_704),
        ("phi-3-mini", 3_821_079_552),
        ("gemma-2-2b", 2_614_341_888),
        ("gpt2", 124_439_808),
    ],
)
def test_every_parameter_of_other_families(name: str, parameters: int) -> None:
    """Totals of the published checkpoints (tests/data/parameter_totals.csv)."""
    source = random_weights(load_spec(name))
    assert sum(np.prod(stored.shape) for stored in source.stored.values()) == parameters
    for own in [own for own in source.names if own.startswith("layers.3.")]:
        shape = source.stored[own].shape
        one = source.tensor(own, slice(1, 2))
        assert one.shape == (1, *shape[1:])
        if len(shape) == 3 and shape[0] > 100:
            assert np.array_equal(source.tensor(own, slice(0, 2))[1], one[0])


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
    gpt2 = random_weights(load_spec("gpt2"))
    assert (gpt2.tensor("layers.5.attention_norm") == 1).all()
    assert from_bf16(gpt2.tensor("layers.5.attention_norm_bias")).std() == pytest.approx(0.02, rel=0.1)


def test_rows_and_seeds() -> None:
    source = random_weights(SPEC, seed=1)
    whole = source.tensor("layers.1.o")
    np.testing.assert_array_equal(source.tensor("layers.1.o", slice(700, 900)), whole[700:900])
    np.testing.assert_array_equal(random_weights(SPEC, seed=1).tensor("layers.1.o"), whole)
    assert not np.array_equal(random_weights(SPEC, seed=2).tensor("layers.1.o"), whole)
