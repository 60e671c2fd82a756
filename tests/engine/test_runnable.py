"""What the engine has no kernel for is refused by name, before any weight is read."""

from dataclasses import replace

import pytest

from twophase.engine.runnable import require_runnable
from twophase.errors import InputError
from twophase.model.catalogue import load_spec
from twophase.model.mixers import Mamba2, Rope
from twophase.model.spec import MLP, Layer, ModelSpec, MoE, Weight

LLAMA = load_spec("llama-3-8b")


def with_layer(layer: Layer) -> ModelSpec:
    return replace(LLAMA, layers=(*LLAMA.layers[:-1], layer))


@pytest.mark.parametrize(
    "name",
    [
        *("llama-3-8b", "llama-3.1-8b", "qwen2.5-7b", "qwen3-8b", "qwen3-30b-a3b", "mistral-7b"),
        *("mixtral-8x7b", "gemma-2-9b", "gemma-3-270m", "gemma-3-27b", "phi-3-mini", "gpt2"),
    ],
)
def test_the_families_of_the_kernels_are_taken(name: str) -> None:
    require_runnable(load_spec(name))


PLAIN = LLAMA.layers[-1]
EXPERT = MLP(64, "silu")


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (replace(PLAIN, mixers=(Mamba2(4, 64, 1, 16, 4),)), "way of mixing tokens (Mamba2)"),
        (replace(PLAIN, mixers=()), "layers of one block"),
        (
            replace(PLAIN, mixers=(replace(PLAIN.attention, rope=Rope(1e4, "dynamic")),)),
            "positions (dynamic)",
        ),
        (replace(PLAIN, mixers=(replace(PLAIN.attention, sinks=True),)), "kind of attention"),
        (replace(PLAIN, mixers=(replace(PLAIN.attention, gate="head"),)), "kind of attention"),
        (replace(PLAIN, feed_forward=None), "layers without a feed-forward block"),
        (replace(PLAIN, feed_forward=MoE(8, 2, EXPERT, router_bias=True)), "mixture of experts with biases"),
        (replace(PLAIN, feed_forward=MoE(8, 2, EXPERT, latent=32)), "mixture of experts"),
        (replace(PLAIN, feed_forward=MoE(8, 2, replace(EXPERT, activation="gelu"))), "activation gelu"),
        (replace(PLAIN, feed_forward=MLP(64, "xielu", gated=False)), "activation xielu"),
        (replace(PLAIN, norms="single"), "norms of a layer (single)"),
        (replace(PLAIN, extra=(Weight("gate", "mlp", 1),)), "weights beside attention and MLP (gate)"),
    ],
)
def test_what_has_no_kernel_is_named(layer: Layer, says: str) -> None:
    with pytest.raises(InputError) as error:
        require_runnable(with_layer(layer))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (replace(LLAMA, norm="none"), "norms without weights"),
        (replace(LLAMA, embedding_dim=512), "embedding of 512 dimensions"),
        (replace(LLAMA, extra=(Weight("project_in", "embedding", 4096, 512),)), "weights beside the layers"),
        (replace(LLAMA, family="glm4"), "glm4 was not held against its own library"),
    ],
)
def test_a_model_that_is_not_a_plain_transformer_is_named(spec: ModelSpec, says: str) -> None:
    with pytest.raises(InputError) as error:
        require_runnable(spec)
    assert says in str(error.value)
