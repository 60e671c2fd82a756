"""What follows from a description by counting: parameters, and the weights that a pass multiplies by."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from twophase.model.spec import ModelSpec, Part, Weight
from twophase.model.weights import layer_weights, outer_weights


@dataclass(frozen=True, slots=True)
class Parameters:
    """Of the text model. total and active count a head that is tied to the embedding once."""

    embedding: int  # tables: tokens, learned positions, per-layer embeddings
    attention: int
    recurrent: int
    mlp: int  # dense blocks, shared experts and routers
    experts: int  # routed
    norms: int
    head: int  # the output projection
    total: int
    active: int  # what one token uses: all but the experts that it isn't sent to
    active_without_embedding: int  # and without the token embedding, where the head is not that same matrix


def all_weights(spec: ModelSpec) -> Iterator[tuple[Weight, int]]:
    """Every weight, and in how many layers it stands. Like layers are looked at once."""
    yield from ((weight, 1) for weight in outer_weights(spec))
    for layer, count in Counter(spec.layers).items():
        yield from ((weight, count) for weight in layer_weights(layer, spec.d_model, spec.norm))


def parameters(spec: ModelSpec) -> Parameters:
    """Every parameter of the network, biases and norms included."""
    parts: Counter[Part] = Counter()
    idle = 0
    for weight, count in all_weights(spec):
        parts[weight.part] += weight.parameters * count
        idle += (weight.parameters - weight.active) * count
    tied = spec.vocab_size * (spec.embedding_dim or spec.d_model)
    total = sum(parts.values()) - (tied if spec.tied_embeddings else 0)
    return Parameters(
        embedding=parts["embedding"],
        attention=parts["attention"],
        recurrent=parts["recurrent"],
        mlp=parts["mlp"],
        experts=parts["experts"],
        norms=parts["norms"],
        head=parts["head"],
        total=total,
        active=total - idle,
        active_without_embedding=total - idle - (0 if spec.tied_embeddings else tied),
    )


def matmul_parameters(spec: ModelSpec) -> int:
    """Weights that a token is multiplied by: blocks with its own experts, and the output projection."""
    return sum(weight.active * count for weight, count in all_weights(spec) if weight.is_matrix)


def all_matmul_parameters(spec: ModelSpec) -> int:
    """The same with every expert."""
    return sum(weight.parameters * count for weight, count in all_weights(spec) if weight.is_matrix)
