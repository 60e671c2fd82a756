"""The weights of a network in the formats in which a checkpoint stores them."""

from dataclasses import dataclass
from functools import lru_cache

from twophase.model.formats import Format, stored_bytes
from twophase.model.quantization import Storage
from twophase.model.spec import ModelSpec, Weight
from twophase.model.weights import layer_weights, outer_weights


@dataclass(frozen=True, slots=True)
class Stored:
    weight: Weight
    format: Format


@lru_cache(maxsize=64)
def stored_layers(spec: ModelSpec, storage: Storage) -> tuple[tuple[Stored, ...], ...]:
    """Each layer's weights; where no rule speaks of single layers, like layers are looked at once."""
    known: dict[object, tuple[Stored, ...]] = {}
    found = []
    for i, layer in enumerate(spec.layers):
        key = (layer, i) if storage.rules else layer
        if key not in known:
            known[key] = tuple(
                Stored(weight, storage.format_of(f"model.layers.{i}.{weight.name}"))
                for weight in layer_weights(layer, spec.d_model, spec.norm)
            )
        found.append(known[key])
    return tuple(found)


def outer_stored(spec: ModelSpec, storage: Storage) -> tuple[Stored, ...]:
    """What stands outside the layers; a tied head is the embedding's table, read as a matrix."""
    return tuple(
        Stored(weight, storage.format_of(_outer_name(weight, spec))) for weight in outer_weights(spec)
    )


def _outer_name(weight: Weight, spec: ModelSpec) -> str:
    tied = weight.name == "lm_head" and spec.tied_embeddings
    if tied or weight.name == "embed_tokens":
        return "model.embed_tokens"
    return weight.name if weight.part == "head" else f"model.{weight.name}"


@lru_cache(maxsize=4096)
def stored_bytes_of(stored: Stored) -> float:
    """Of all copies, with scales and zero points."""
    weight = stored.weight
    if not weight.inputs:
        return weight.copies * weight.outputs * stored.format.bits / 8
    return weight.copies * stored_bytes(stored.format, weight.outputs, weight.inputs)


def weights_bytes(spec: ModelSpec, storage: Storage) -> float:
    """Of the whole network; a head that is tied to the embedding is counted once."""
    outer = sum(
        stored_bytes_of(each)
        for each in outer_stored(spec, storage)
        if not (spec.tied_embeddings and each.weight.name == "lm_head")
    )
    return outer + sum(stored_bytes_of(each) for layer in stored_layers(spec, storage) for each in layer)


def matmul_bytes(spec: ModelSpec, storage: Storage) -> float:
    """Of all that is multiplied by, with every expert; a tied head is the embedding's table."""
    every = [outer_stored(spec, storage), *stored_layers(spec, storage)]
    return sum(stored_bytes_of(each) for part in every for each in part if each.weight.is_matrix)
