"""A model's tensors under one set of names, whatever file they lie in.

Names: embedding, norm, head (not where it is tied to the embedding), positions where they are learned, and
behind "layers.{i}.":
q k v o, q_norm and k_norm; attention_norm and mlp_norm before the blocks, attention_post_norm and
mlp_post_norm after them; gate up down, or up and down where nothing is gated;
router, experts.gate experts.up experts.down, shared.gate shared.up shared.down, shared_gate.
Beside each of them, where the model has it, its bias: q_bias, attention_norm_bias.

Matrices are [out, in], those of experts [experts, out, in]; rotary heads are laid out in halves, as Hugging
Face has them; a norm is what the normalised row is multiplied by.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twophase.model.mixers import Attention
from twophase.model.spec import MLP, FeedForward, Layer, ModelSpec, NormPlaces

Array = NDArray[Any]
Shape = tuple[int, ...]
ALL_ROWS = slice(None)
NORM_NAMES: dict[NormPlaces, tuple[str, ...]] = {
    "before": ("attention_norm", "mlp_norm"),
    "after": ("attention_post_norm", "mlp_post_norm"),
    "around": ("attention_norm", "attention_post_norm", "mlp_norm", "mlp_post_norm"),
    "single": ("attention_norm",),
    "none": (),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor where it lies. `read` takes rows (or experts): float32, or bfloat16 bits in uint16."""

    shape: Shape
    format: str  # BF16, Q4_K ...
    read: Callable[[slice], Array]


@dataclass(frozen=True, slots=True)
class WeightSource:
    """Tensors read when asked for; none is held. On opening all were found to be there, in shape."""

    kind: Literal["real", "random"]
    stored: dict[str, Stored]

    def tensor(self, name: str, rows: slice = ALL_ROWS) -> Array:
        """float32, or bfloat16 bits in uint16; maybe a read-only view of the file. `rows`: only these."""
        return self.stored[name].read(rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.stored)

    @property
    def formats(self) -> dict[str, int]:
        """How many tensors lie in which storage format, the most frequent first."""
        return dict(Counter(each.format for each in self.stored.values()).most_common())


def expected_shapes(spec: ModelSpec) -> dict[str, Shape]:
    """Every tensor that the model has, of a plain transformer's layers."""
    table = (spec.vocab_size, spec.d_model)
    shapes: dict[str, Shape] = {"embedding": table}
    for weight in spec.extra:
        if weight.name == "embed_positions":
            shapes["positions"] = (weight.outputs, weight.inputs)
    if spec.final_norm:
        shapes |= _norm_shapes(spec, "norm")
    if not spec.tied_embeddings:
        shapes["head"] = table
    if spec.head_bias:
        shapes["head_bias"] = table[:1]
    for i, layer in enumerate(spec.layers):
        shapes |= {f"layers.{i}.{name}": shape for name, shape in _layer_shapes(spec, layer).items()}
    return shapes


def _layer_shapes(spec: ModelSpec, layer: Layer) -> dict[str, Shape]:
    return {
        **_attention_shapes(layer.attention, spec.d_model),
        **_feed_forward_shapes(layer.feed_forward, spec.d_model),
        **_norm_shapes(spec, *NORM_NAMES[layer.norms]),
    }


def _norm_shapes(spec: ModelSpec, *names: str) -> dict[str, Shape]:
    suffixes = {"rms": ("",), "layer": ("", "_bias"), "layer-no-bias": ("",), "none": ()}[spec.norm]
    return {f"{name}{suffix}": (spec.d_model,) for name in names for suffix in suffixes}


def _attention_shapes(own: Attention, d: int) -> dict[str, Shape]:
    queries, keys = own.heads * own.head_dim, own.kv_heads * own.head_dim
    shapes: dict[str, Shape] = {"q": (queries, d), "k": (keys, d), "v": (keys, d), "o": (d, queries)}
    biased = [*("q", "k", "v") * own.qkv_bias, *("o",) * own.out_bias]
    shapes |= {f"{name}_bias": shapes[name][:1] for name in biased}
    if own.qk_norm_wide:
        shapes |= {"q_norm": (queries,), "k_norm": (keys,)}
    elif own.qk_norm:
        shapes |= dict.fromkeys(("q_norm", "k_norm"), (own.head_dim,))
    return shapes


def _feed_forward_shapes(own: FeedForward | None, d: int) -> dict[str, Shape]:
    if own is None:
        return {}
    if isinstance(own, MLP):
        return _mlp_shapes(own, d)
    shapes: dict[str, Shape] = {"router": (own.experts, d)}
    if own.router_bias:
        shapes["router_bias"] = (own.experts,)
    one = _mlp_shapes(own.expert, d)
    shapes |= {f"experts.{name}": (own.experts, *shape) for name, shape in one.items()}
    if own.shared:
        shapes |= {f"shared.{name}": shape for name, shape in _mlp_shapes(own.shared, d).items()}
    if own.shared_gate:
        shapes["shared_gate"] = (1, d)
    return shapes


def _mlp_shapes(own: MLP, d: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {"gate": (own.d_ff, d)} if own.gated else {}
    shapes |= {"up": (own.d_ff, d), "down": (d, own.d_ff)}
    return shapes | {f"{name}_bias": shape[:1] for name, shape in shapes.items() if own.bias}


def half_order(spec: ModelSpec, name: str) -> NDArray[np.intp] | None:
    """Of a q or k whose rotary pairs lie side by side, the order that puts heads in halves; else None."""
    *layer, leaf = name.split(".")
    if leaf.removesuffix("_bias") not in ("q", "k"):
        return None
    attention = spec.layers[int(layer[1])].attention
    return _half_order(attention.heads if leaf[0] == "q" else attention.kv_heads, attention.head_dim)


@cache
def _half_order(heads: int, head_dim: int) -> NDArray[np.intp]:
    """Of every head first the even rows, then the odd ones."""
    return np.arange(heads * head_dim).reshape(heads, -1, 2).swapaxes(1, 2).ravel()


def mapped(path: Path, dtype: np.dtype[Any], offset: int, shape: Shape) -> Array:
    """A read-only view of a file; what is looked at is read."""
    return np.memmap(path, dtype, "r", offset, shape).view(np.ndarray)
