"""From a weight source to a packed network, some rows at a time: never two copies of the weights."""

from collections.abc import Iterator, Sequence

import numpy as np

from twophase.engine.feed_forward import (
    FeedForwardWeights,
    MLPWeights,
    MoEWeights,
    router_rows,
    up_rows,
)
from twophase.engine.network import Compute, LayerWeights, Network
from twophase.engine.packer import Format, Formats, Packer, Part, Progress, formats_of
from twophase.engine.tensors import WeightSource
from twophase.kernels.packing import (
    DTYPES,
    aligned,
    padded,
    panel_bytes,
)
from twophase.model.spec import MLP, FeedForward, Layer, ModelSpec, MoE


def matrices(spec: ModelSpec, formats: Formats) -> Iterator[tuple[int, int, Format]]:
    """(rows, columns, format) of every packed matrix, padded to whole lanes, in the arena's order."""
    rows, d = padded(spec.vocab_size), padded(spec.d_model)
    if not spec.tied_embeddings:
        yield rows, d, formats.plain
    yield rows, d, formats.head
    for layer in spec.layers:
        own, block = layer.attention, layer.feed_forward
        heads, width = own.heads, padded(own.head_dim)
        yield (heads + 2 * own.kv_heads) * width, d, formats.layers
        yield d, heads * width, formats.layers
        if isinstance(block, MoE):
            yield router_rows(block), d, formats.plain
            yield from _mlp_matrices(block.expert, d, formats, block.experts)
        mlp = block.shared if isinstance(block, MoE) else block
        if mlp:
            yield from _mlp_matrices(mlp, d, formats)


def _mlp_matrices(own: MLP, d: int, formats: Formats, experts: int = 1) -> Iterator[tuple[int, int, Format]]:
    yield experts * up_rows(own), d, formats.layers
    yield experts * d, padded(own.d_ff), formats.layers


def network_bytes(spec: ModelSpec, compute: Compute, weights: Format | None = None) -> int:
    """Of all matrices, scales included; norms and biases are some thousandths beside them."""
    return sum(panel_bytes(*each) for each in matrices(spec, formats_of(compute, weights)))


def load_network(
    source: WeightSource,
    spec: ModelSpec,
    compute: Compute,
    progress: Progress = lambda share: None,
    *,
    weights: Format | None = None,
) -> Network:
    """weights: the format that matrices are kept in, by default the compute type.

    Norms and biases are float32; `progress` is told the share of the weights that is done.
    """
    formats = formats_of(compute, weights)
    arena = aligned(network_bytes(spec, compute, weights), np.uint8)
    packer = Packer(source, arena, formats, progress)
    rows, d = padded(spec.vocab_size), padded(spec.d_model)
    tied = spec.tied_embeddings
    embedding = packer.matrix([Part("embedding", rows)], d, format=formats.head if tied else formats.plain)
    head = embedding if tied else packer.matrix([Part("head", rows)], d, format=formats.head)
    layers = tuple(_load_layer(packer, f"layers.{i}.", layer, spec) for i, layer in enumerate(spec.layers))
    positions = source.stored["positions"].shape[0] if "positions" in source.stored else 1
    return Network(
        spec=spec,
        compute=compute,
        arena=arena.view(DTYPES[formats.layers]),
        embedding=embedding,
        positions=packer.vector("positions", d, positions),
        head=head,
        head_bias=packer.vector("head_bias", rows),
        norm=packer.norm("norm", d),
        layers=layers,
    )


def _load_layer(packer: Packer, at: str, layer: Layer, spec: ModelSpec) -> LayerWeights:
    own, d = layer.attention, padded(spec.d_model)
    width = padded(own.head_dim)
    qkv = {"q": own.heads, "k": own.kv_heads, "v": own.kv_heads}
    q_groups, k_groups = (own.heads, own.kv_heads) if own.qk_norm_wide else (1, 1)
    assert layer.feed_forward
    return LayerWeights(
        attention_norm=packer.norm(f"{at}attention_norm", d),
        qkv=packer.matrix([Part(f"{at}{name}", width, count) for name, count in qkv.items()], d),
        qkv_bias=np.concatenate(
            [packer.vector(f"{at}{name}_bias", width, count) for name, count in qkv.items()]
        ),
        q_norm=packer.vector(f"{at}q_norm", width, q_groups),
        k_norm=packer.vector(f"{at}k_norm", width, k_groups),
        o=packer.matrix([Part(f"{at}o", d)], width, own.heads),
        o_bias=packer.vector(f"{at}o_bias", d),
        attention_post_norm=packer.norm(f"{at}attention_post_norm", d),
        mlp_norm=packer.norm(f"{at}mlp_norm", d),
        feed_forward=_load_feed_forward(packer, at, layer.feed_forward, d),
        mlp_post_norm=packer.norm(f"{at}mlp_post_norm", d),
    )


def _load_feed_forward(packer: Packer, at: str, own: FeedForward, d: int) -> FeedForwardWeights:
    if isinstance(own, MLP):
        return _load_mlp(packer, at, own, d)
    gate = [Part(f"{at}shared_gate", padded(1))] if own.shared_gate else []
    return MoEWeights(
        router=packer.matrix(
            [Part(f"{at}router", padded(own.experts)), *gate], d, format=packer.formats.plain
        ),
        experts=_load_mlp(packer, f"{at}experts.", own.expert, d, range(own.experts)),
        shared=_load_mlp(packer, f"{at}shared.", own.shared, d) if own.shared else None,
    )


def _load_mlp(
    packer: Packer, at: str, own: MLP, d: int, experts: Sequence[int | None] = (None,)
) -> MLPWeights:
    width, ups = padded(own.d_ff), ("gate", "up") if own.gated else ("up",)
    return MLPWeights(
        up=packer.matrix([Part(at + name, width, expert=e) for e in experts for name in ups], d),
        up_bias=np.concatenate([packer.vector(f"{at}{name}_bias", width) for name in ups]),
        down=packer.matrix([Part(f"{at}down", d, expert=e) for e in experts], width),
        down_bias=packer.vector(f"{at}down_bias", d),
    )
