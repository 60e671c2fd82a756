"""From a weight source to a packed network, some rows at a time: never two copies of the weights."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from twophase.engine.bf16 import from_bf16, to_bf16
from twophase.engine.network import NOTHING, Compute, LayerWeights, Network
from twophase.engine.tensors import Array, WeightSource
from twophase.kernels.packing import aligned, pack_panels, padded
from twophase.model.spec import Layer, ModelSpec

CHUNK_ROWS = 1 << 11  # read and converted at a time: what stays in cache; a multiple of 16
Progress = Callable[[float], None]


def matrix_shapes(spec: ModelSpec) -> list[tuple[int, int]]:
    """(rows, columns) of every packed matrix, padded to whole lanes."""
    d = padded(spec.d_model)
    shapes = [(padded(spec.vocab_size), d)] * (1 if spec.tied_embeddings else 2)
    for layer in spec.layers:
        heads, width = layer.attention.heads, padded(layer.attention.head_dim)
        qkv, d_ff = (heads + 2 * layer.attention.kv_heads) * width, padded(layer.mlp.d_ff)
        shapes += [(qkv, d), (d, heads * width), (2 * d_ff, d), (d, d_ff)]
    return shapes


def network_bytes(spec: ModelSpec, compute: Compute) -> int:
    return sum(n * k for n, k in matrix_shapes(spec)) * (2 if compute == "bf16" else 4)


def load_network(
    source: WeightSource, spec: ModelSpec, compute: Compute, progress: Progress = lambda share: None
) -> Network:
    """`progress` is told the share of the weights that is done."""
    dtype = np.dtype(np.uint16 if compute == "bf16" else np.float32)
    arena = aligned(network_bytes(spec, compute) // dtype.itemsize, dtype)
    packer = _Packer(source, arena, progress)
    d = padded(spec.d_model)
    embedding = packer.pack({"embedding": 1}, padded(spec.vocab_size), d)
    head = embedding if spec.tied_embeddings else packer.pack({"head": 1}, padded(spec.vocab_size), d)
    layers = tuple(_load_layer(packer, f"layers.{i}.", layer, spec) for i, layer in enumerate(spec.layers))
    return Network(spec, compute, arena, embedding, head, packer.vector("norm", 1, d), layers)


def _load_layer(packer: "_Packer", at: str, layer: Layer, spec: ModelSpec) -> LayerWeights:
    attention, mlp = layer.attention, layer.mlp
    d, width, d_ff = padded(spec.d_model), padded(attention.head_dim), padded(mlp.d_ff)
    qkv = {"q": attention.heads, "k": attention.kv_heads, "v": attention.kv_heads}

    def vector(name: str, size: int, groups: int = 1, present: bool = True) -> Array:
        return packer.vector(at + name, groups, size) if present else NOTHING

    def matrix(groups: Mapping[str, int], rows: int, columns: int) -> Array:
        return packer.pack({at + name: count for name, count in groups.items()}, rows, columns)

    return LayerWeights(
        attention_norm=vector("attention_norm", d),
        qkv=matrix(qkv, width, d),
        qkv_bias=np.concatenate(
            [vector(f"{name}_bias", width, count, attention.qkv_bias) for name, count in qkv.items()]
        ),
        q_norm=vector("q_norm", width, present=attention.qk_norm),
        k_norm=vector("k_norm", width, present=attention.qk_norm),
        o=packer.pack_columns(f"{at}o", attention.heads, d, width),
        o_bias=vector("o_bias", d, present=attention.out_bias),
        attention_post_norm=vector("attention_post_norm", d, present=spec.sandwich_norms),
        mlp_norm=vector("mlp_norm", d),
        gate_up=matrix({"gate": 1, "up": 1}, d_ff, d),
        gate_up_bias=np.concatenate(
            [vector(f"{name}_bias", d_ff, present=mlp.bias) for name in ("gate", "up")]
        ),
        down=matrix({"down": 1}, d, d_ff),
        down_bias=vector("down_bias", d, present=mlp.bias),
        mlp_post_norm=vector("mlp_post_norm", d, present=spec.sandwich_norms),
    )


@dataclass(slots=True)
class _Packer:
    """Fills the arena from its start; rows and columns that pad are zero."""

    source: WeightSource
    arena: Array
    progress: Progress
    used: int = 0

    def pack(self, groups: Mapping[str, int], rows: int, columns: int) -> Array:
        """Tensors one below another, each in groups (heads) that are padded to `rows` rows, as panels."""
        matrix = self._take(sum(groups.values()) * rows * columns).reshape(-1, columns)
        start = 0
        for name, count in groups.items():
            for chunk in self._chunks(name, count, rows):
                whole = np.zeros((len(chunk), columns), self.arena.dtype)
                whole[:, : chunk.shape[1]] = chunk
                pack_panels(whole, matrix[start : start + len(chunk)].reshape(-1))
                start += len(chunk)
        self.progress(self.used / self.arena.size)
        return matrix.reshape(-1)

    def pack_columns(self, name: str, groups: int, rows: int, columns: int) -> Array:
        """A tensor whose columns come in groups (heads), each padded to `columns` columns, as panels."""
        values = convert(self.source.tensor(name), self.arena.dtype)
        whole = np.zeros((rows, groups, columns), self.arena.dtype)
        split = values.reshape(len(values), groups, -1)
        whole[: len(values), :, : split.shape[2]] = split
        out = self._take(whole.size)
        pack_panels(whole.reshape(rows, -1), out)
        return out

    def vector(self, name: str, groups: int, size: int) -> Array:
        """float32, each group padded to `size`."""
        values = convert(self.source.tensor(name), np.dtype(np.float32)).reshape(groups, -1)
        whole = np.zeros((groups, size), np.float32)
        whole[:, : values.shape[1]] = values
        return whole.reshape(-1)

    def _chunks(self, name: str, groups: int, rows: int) -> Iterator[Array]:
        """A tensor's rows in the arena's type, some groups or some rows at a time, in whole panels."""
        own = self.source.stored[name].shape[0] // groups
        if own == rows:  # nothing to pad: as one
            groups, own, rows = 1, groups * own, groups * rows
        for group in range(groups):
            for start in range(0, rows, CHUNK_ROWS):
                end = min(rows, start + CHUNK_ROWS)
                read = slice(group * own + start, group * own + min(own, end))
                values = convert(self.source.tensor(name, read), self.arena.dtype)
                yield np.pad(values, ((0, end - start - len(values)), (0, 0)))

    def _take(self, elements: int) -> Array:
        self.used += elements
        return self.arena[self.used - elements : self.used]


def convert(
    values: Array, dtype: "np.dtype[np.uint16] | np.dtype[np.float32] | np.dtype[np.generic]"
) -> Array:
    """Between float32 and bf16 bits."""
    if values.dtype == dtype:
        return values
    return from_bf16(values) if dtype == np.float32 else to_bf16(values)
