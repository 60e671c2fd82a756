"""From a weight source to a packed network, one tensor at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from twophase.engine.network import NOTHING, Compute, LayerWeights, Network
from twophase.kernels.packing import pack_panels, padded
from twophase.model.spec import Layer, ModelSpec

Array = NDArray[Any]
CHUNK_ROWS = 1 << 14  # of a matrix converted at a time


class Tensors(Protocol):
    def tensor(self, name: str) -> Array:
        """float32, or bf16 as uint16 bits; matrices [out, in]."""


def matrix_shapes(spec: ModelSpec) -> list[tuple[int, int]]:
    """(rows, columns) of every packed matrix, padded to whole lanes."""
    d = padded(spec.d_model)
    shapes = [(padded(spec.vocab_size), d)] * (1 if spec.tied_embeddings else 2)
    for layer in spec.layers:
        heads, width = layer.attention.heads, padded(layer.attention.head_dim)
        d_ff = padded(layer.mlp.d_ff)
        shapes += [
            ((heads + 2 * layer.attention.kv_heads) * width, d),
            (d, heads * width),
            (2 * d_ff, d),
            (d, d_ff),
        ]
    return shapes


def network_bytes(spec: ModelSpec, compute: Compute) -> int:
    return sum(n * k for n, k in matrix_shapes(spec)) * (2 if compute == "bf16" else 4)


def load_network(
    source: Tensors, spec: ModelSpec, compute: Compute, progress: Callable[[float], None] = lambda share: None
) -> Network:
    """Read, convert and pack every tensor. `progress` is told the share of bytes done."""
    dtype = np.dtype(np.uint16 if compute == "bf16" else np.float32)
    packer = _Packer(np.empty(network_bytes(spec, compute) // dtype.itemsize, dtype), progress)
    d = padded(spec.d_model)
    embedding = packer.pack([source.tensor("embedding")], spec.vocab_size, d)
    head = embedding if spec.tied_embeddings else packer.pack([source.tensor("head")], spec.vocab_size, d)
    layers = tuple(
        _load_layer(source, f"layers.{i}.", layer, spec, packer) for i, layer in enumerate(spec.layers)
    )
    return Network(spec, compute, packer.arena, embedding, head, _vector(source, "norm", 1, d), layers)


def _load_layer(source: Tensors, at: str, layer: Layer, spec: ModelSpec, packer: "_Packer") -> LayerWeights:
    attention, mlp = layer.attention, layer.mlp
    d, width, d_ff = padded(spec.d_model), padded(attention.head_dim), padded(mlp.d_ff)
    counts = {"q": attention.heads, "k": attention.kv_heads, "v": attention.kv_heads}

    def vector(name: str, groups: int, size: int, present: bool) -> Array:
        return _vector(source, at + name, groups, size) if present else NOTHING

    qkv = [_pad(source.tensor(at + name), heads, width) for name, heads in counts.items()]
    o = source.tensor(at + "o")
    o = _pad(np.ascontiguousarray(o.T), attention.heads, width).T
    bias = [vector(f"{name}_bias", heads, width, attention.qkv_bias) for name, heads in counts.items()]
    gate_up = [_pad(source.tensor(at + name), 1, d_ff) for name in ("gate", "up")]
    gate_up_bias = [vector(f"{name}_bias", 1, d_ff, mlp.bias) for name in ("gate", "up")]
    return LayerWeights(
        attention_norm=vector("attention_norm", 1, d, True),
        qkv=packer.pack(qkv, sum(counts.values()) * width, d),
        qkv_bias=np.concatenate(bias),
        q_norm=vector("q_norm", 1, width, attention.qk_norm),
        k_norm=vector("k_norm", 1, width, attention.qk_norm),
        o=packer.pack([o], spec.d_model, attention.heads * width),
        o_bias=vector("o_bias", 1, d, attention.out_bias),
        attention_post_norm=vector("attention_post_norm", 1, d, spec.sandwich_norms),
        mlp_norm=vector("mlp_norm", 1, d, True),
        gate_up=packer.pack(gate_up, 2 * d_ff, d),
        gate_up_bias=np.concatenate(gate_up_bias),
        down=packer.pack([source.tensor(at + "down")], spec.d_model, d_ff),
        down_bias=vector("down_bias", 1, d, mlp.bias),
        mlp_post_norm=vector("mlp_post_norm", 1, d, spec.sandwich_norms),
    )


@dataclass(slots=True)
class _Packer:
    """Fills the arena from its start."""

    arena: Array
    progress: Callable[[float], None]
    used: int = 0

    def pack(self, parts: list[Array], rows: int, columns: int) -> Array:
        """The parts, one below another, padded to [rows, columns] in whole lanes, as panels."""
        size = padded(rows) * columns
        out = self.arena[self.used : self.used + size]
        row = 0
        for part in parts:
            for start in range(0, len(part), CHUNK_ROWS):
                chunk = _convert(part[start : start + CHUNK_ROWS], self.arena.dtype)
                whole = np.zeros((padded(len(chunk)), columns), self.arena.dtype)
                whole[: len(chunk), : chunk.shape[1]] = chunk
                pack_panels(whole, out[row * columns : (row + len(whole)) * columns])
                row += len(whole)
        self.used += size
        self.progress(self.used / self.arena.size)
        return out


def _pad(matrix: Array, groups: int, size: int) -> Array:
    """Rows in `groups` equal groups, each padded with zeros to `size` rows."""
    if len(matrix) == groups * size:
        return matrix
    whole = np.zeros((groups, size, matrix.shape[1]), matrix.dtype)
    whole[:, : len(matrix) // groups] = matrix.reshape(groups, -1, matrix.shape[1])
    return whole.reshape(groups * size, -1)


def _vector(source: Tensors, name: str, groups: int, size: int) -> Array:
    return _pad(_convert(source.tensor(name), np.dtype(np.float32))[:, None], groups, size).ravel()


def _convert(values: Array, dtype: np.dtype[Any]) -> Array:
    """Between float32 and bf16 bits (round to nearest even; weights are finite)."""
    if values.dtype == dtype:
        return values
    if dtype == np.float32:
        return (values.astype(np.uint32) << 16).view(np.float32)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
