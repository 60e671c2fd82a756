"""From a weight source to a packed network, some rows at a time: never two copies of the weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twophase.engine.bf16 import from_bf16, to_bf16
from twophase.engine.feed_forward import (
    NOTHING,
    FeedForwardWeights,
    MLPWeights,
    MoEWeights,
    router_rows,
    up_rows,
)
from twophase.engine.network import Compute, LayerWeights, Network, Norm
from twophase.engine.scratch import Array
from twophase.engine.tensors import WeightSource
from twophase.kernels.packing import Panels, aligned, pack_panels, padded
from twophase.model.spec import MLP, FeedForward, Layer, ModelSpec, MoE

CHUNK_ROWS = 1 << 11  # read and converted at a time: what stays in cache; a multiple of 16
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a matrix: a tensor's, in groups (heads) that are padded to `rows` rows each."""

    name: str
    rows: int
    groups: int = 1
    expert: int | None = None  # the tensor is of all experts: this one's


def matrix_shapes(spec: ModelSpec) -> list[tuple[int, int]]:
    """(rows, columns) of every packed matrix, padded to whole lanes."""
    d = padded(spec.d_model)
    shapes = [(padded(spec.vocab_size), d)] * (1 if spec.tied_embeddings else 2)
    for layer in spec.layers:
        own, block = layer.attention, layer.feed_forward
        heads, width = own.heads, padded(own.head_dim)
        shapes += [((heads + 2 * own.kv_heads) * width, d), (d, heads * width)]
        if isinstance(block, MoE):
            shapes += [(router_rows(block), d)]
            shapes += _mlp_shapes(block.expert, d, block.experts)
            shapes += _mlp_shapes(block.shared, d) if block.shared else []
        elif block:
            shapes += _mlp_shapes(block, d)
    return shapes


def _mlp_shapes(own: MLP, d: int, experts: int = 1) -> list[tuple[int, int]]:
    return [(experts * up_rows(own), d), (experts * d, padded(own.d_ff))]


def network_bytes(spec: ModelSpec, compute: Compute) -> int:
    """Of all matrices; vectors are some thousandths beside them."""
    return sum(n * k for n, k in matrix_shapes(spec)) * (2 if compute == "bf16" else 4)


def load_network(
    source: WeightSource, spec: ModelSpec, compute: Compute, progress: Progress = lambda share: None
) -> Network:
    """`progress` is told the share of the weights that is done."""
    dtype = np.dtype(np.uint16 if compute == "bf16" else np.float32)
    arena = aligned(network_bytes(spec, compute) // dtype.itemsize, dtype)
    packer = _Packer(source, arena, progress)
    rows, d = padded(spec.vocab_size), padded(spec.d_model)
    embedding = packer.matrix([Part("embedding", rows)], d)
    head = embedding if spec.tied_embeddings else packer.matrix([Part("head", rows)], d)
    layers = tuple(_load_layer(packer, f"layers.{i}.", layer, spec) for i, layer in enumerate(spec.layers))
    positions = source.stored["positions"].shape[0] if "positions" in source.stored else 1
    return Network(
        spec=spec,
        compute=compute,
        arena=arena,
        embedding=embedding,
        positions=packer.vector("positions", d, positions),
        head=head,
        head_bias=packer.vector("head_bias", rows),
        norm=packer.norm("norm", d),
        layers=layers,
    )


def _load_layer(packer: "_Packer", at: str, layer: Layer, spec: ModelSpec) -> LayerWeights:
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


def _load_feed_forward(packer: "_Packer", at: str, own: FeedForward, d: int) -> FeedForwardWeights:
    if isinstance(own, MLP):
        return _load_mlp(packer, at, own, d)
    gate = [Part(f"{at}shared_gate", padded(1))] if own.shared_gate else []
    return MoEWeights(
        router=packer.matrix([Part(f"{at}router", padded(own.experts)), *gate], d),
        experts=_load_mlp(packer, f"{at}experts.", own.expert, d, range(own.experts)),
        shared=_load_mlp(packer, f"{at}shared.", own.shared, d) if own.shared else None,
    )


def _load_mlp(
    packer: "_Packer", at: str, own: MLP, d: int, experts: Sequence[int | None] = (None,)
) -> MLPWeights:
    width, ups = padded(own.d_ff), ("gate", "up") if own.gated else ("up",)
    return MLPWeights(
        up=packer.matrix([Part(at + name, width, expert=e) for e in experts for name in ups], d),
        up_bias=np.concatenate([packer.vector(f"{at}{name}_bias", width) for name in ups]),
        down=packer.matrix([Part(f"{at}down", d, expert=e) for e in experts], width),
        down_bias=packer.vector(f"{at}down_bias", d),
    )


@dataclass(slots=True)
class _Packer:
    """Fills the arena from its start; rows and columns that pad are zero."""

    source: WeightSource
    arena: Array
    progress: Progress
    used: int = 0

    def matrix(self, parts: Sequence[Part], columns: int, groups: int = 1) -> Panels:
        """Parts one below another, their columns in groups (heads) each padded to `columns` columns."""
        k = groups * columns
        rows = sum(part.rows * part.groups for part in parts)
        panels = self._take(rows * k).reshape(-1, k)
        start = 0
        for part in parts:
            for chunk in self._chunks(part):
                whole = np.zeros((len(chunk), groups, columns), self.arena.dtype)
                split = chunk.reshape(len(chunk), groups, -1)
                whole[:, :, : split.shape[2]] = split
                pack_panels(whole.reshape(-1, k), panels[start : start + len(chunk)].reshape(-1))
                start += len(chunk)
        self.progress(self.used / self.arena.size)
        return Panels(panels.reshape(-1), NOTHING)

    def vector(self, name: str, size: int, groups: int = 1) -> Array:
        """float32, each group padded to `size`; empty where the model has none."""
        if name not in self.source.stored:
            return NOTHING
        values = convert(self.source.tensor(name), np.dtype(np.float32)).reshape(groups, -1)
        whole = np.zeros((groups, size), np.float32)
        whole[:, : values.shape[1]] = values
        return whole.reshape(-1)

    def norm(self, name: str, size: int) -> Norm:
        return Norm(self.vector(name, size), self.vector(f"{name}_bias", size))

    def _chunks(self, part: Part) -> Iterator[Array]:
        """A part's rows in the arena's type, some groups or some rows at a time, in whole panels."""
        tensor, rows, groups = self._rows_of(part), part.rows, part.groups
        own = tensor.count // groups
        if own == rows:  # nothing to pad: as one
            groups, own, rows = 1, groups * own, groups * rows
        for group in range(groups):
            for start in range(0, rows, CHUNK_ROWS):
                end = min(rows, start + CHUNK_ROWS)
                values = tensor.read(slice(group * own + start, group * own + min(own, end)))
                values = convert(values, self.arena.dtype)
                yield np.pad(values, ((0, end - start - len(values)), (0, 0)))

    def _rows_of(self, part: Part) -> "_Rows":
        shape = self.source.stored[part.name].shape
        if part.expert is None:
            return _Rows(shape[0], lambda rows: self.source.tensor(part.name, rows))
        matrix = self.source.tensor(part.name, slice(part.expert, part.expert + 1))[0]
        return _Rows(shape[1], lambda rows: matrix[rows])

    def _take(self, elements: int) -> Array:
        self.used += elements
        return self.arena[self.used - elements : self.used]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A matrix to be read by rows."""

    count: int
    read: Callable[[slice], Array]


def convert(
    values: Array, dtype: "np.dtype[np.uint16] | np.dtype[np.float32] | np.dtype[np.generic]"
) -> Array:
    """Between float32 and bf16 bits."""
    if values.dtype == dtype:
        return values
    return from_bf16(values) if dtype == np.float32 else to_bf16(values)
