"""What the engine has no kernel for is refused by name, before any weight is read."""

from dataclasses import replace

import pytest

from twophase.engine.runnable import require_runnable
from twophase.errors import InputError
from twophase.model.catalogue import load_spec
from twophase.model.mixers import Mamba2, Rope
from twophase.model.spec import MLP, Layer, ModelSpec, MoE

LLAMA = load_spec("llama-3-8b")


def with_layer(layer: Layer) -> ModelSpec:
    return replace(LLAMA, layers=(*LLAMA.layers[:-1], layer))


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen2.5-7b", "qwen3-8b", "gemma-3-270m", "mistral-7b"])
def test_the_families_of_the_kernels_are_taken(name: str) -> None:
    require_runnable(load_spec(name))


PLAIN = LLAMA.layers[-1]


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (replace(PLAIN, mixers=(Mamba2(4, 64, 1, 16, 4),)), "way of mixing tokens (Mamba2)"),
        (replace(PLAIN, mixers=()), "layers of one block"),
        (replace(PLAIN, mixers=(replace(PLAIN.attention, rope=None),)), "positions (not rotary)"),
        (replace(PLAIN, mixers=(replace(PLAIN.attention, rope=Rope(1e4, "yarn")),)), "positions (yarn)"),
        (replace(PLAIN, mixers=(replace(PLAIN.attention, sinks=True),)), "kind of attention"),
        (replace(PLAIN, mixers=(replace(PLAIN.attention, softcap=50.0),)), "kind of attention"),
        (replace(PLAIN, feed_forward=MoE(8, 2, MLP(64, "silu"))), "mixture of experts"),
        (replace(PLAIN, feed_forward=MLP(64, "relu2", gated=False)), "activation relu2 without a gate"),
        (replace(PLAIN, norms="single"), "norms and weights of a layer"),
    ],
)
def test_what_has_no_kernel_is_named(layer: Layer, says: str) -> None:
    with pytest.raises(InputError) as error:
        require_runnable(with_layer(layer))
    assert says in str(error.value)
