"""A model's tensors under one set of names, whatever file they lie in.

Names: embedding, norm, head (not where it is tied to the embedding), and behind "layers.{i}.":
q k v o gate up down, q_bias ... where the model has biases, attention_norm and mlp_norm,
q_norm and k_norm where it norms heads, attention_post_norm and mlp_post_norm with sandwich norms.
Matrices are [out, in]; rotary heads are laid out in halves, as Hugging Face has them; a norm is what
the normalised row is multiplied by.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError
from twophase.model.spec import Layer, ModelSpec

Array = NDArray[Any]
Shape = tuple[int, ...]
ALL_ROWS = slice(None)
UNUSED = ("rotary_emb.", "rope_freqs", "rot_embd")  # computed from the description instead


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor where it lies. `read` takes rows of it: float32, or bfloat16 bits in uint16."""

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
    """Every tensor that the model has."""
    table = (spec.vocab_size, spec.d_model)
    shapes: dict[str, Shape] = {"embedding": table, "norm": (spec.d_model,)}
    if not spec.tied_embeddings:
        shapes["head"] = table
    for i, layer in enumerate(spec.layers):
        shapes |= {f"layers.{i}.{name}": shape for name, shape in _layer_shapes(spec, layer).items()}
    return shapes


def _layer_shapes(spec: ModelSpec, layer: Layer) -> dict[str, Shape]:
    attention, mlp, d = layer.attention, layer.mlp, spec.d_model
    queries, keys = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
    matrices = {
        **{"q": (queries, d), "k": (keys, d), "v": (keys, d), "o": (d, queries)},
        **{"gate": (mlp.d_ff, d), "up": (mlp.d_ff, d), "down": (d, mlp.d_ff)},
    }
    biased = [*("q", "k", "v") * attention.qkv_bias, *("o",) * attention.out_bias]
    biased += ("gate", "up", "down") * mlp.bias
    norms = ["attention_norm", "mlp_norm", *("attention_post_norm", "mlp_post_norm") * spec.sandwich_norms]
    return {
        **matrices,
        **{f"{name}_bias": matrices[name][:1] for name in biased},
        **dict.fromkeys(norms, (d,)),
        **dict.fromkeys(("q_norm", "k_norm") * attention.qk_norm, (attention.head_dim,)),
    }


def match_names(
    where: str, spec: ModelSpec, own_name: Callable[[str], str], shapes: dict[str, Shape], layers: str
) -> dict[str, str]:
    """The file's own name for every tensor that the model has.

    own_name: from our name; shapes: of all tensors in the file; layers: what its layers' names begin with.
    InputError where one is missing or misshapen, or where a layer has one that the model hasn't.
    """
    names = {name: own_name(name) for name in expected_shapes(spec)}
    for name, shape in expected_shapes(spec).items():
        own = names[name]
        if own not in shapes:
            raise InputError(f"{where} has no tensor {own}, which this {spec.family} model needs")
        if shapes[own] != shape:
            raise InputError(
                f"{where}: tensor {own} is {_shown(shapes[own])}, but the model's is {_shown(shape)}"
            )
    used = set(names.values())
    for own in shapes:
        if own.startswith(layers) and own not in used and not any(part in own for part in UNUSED):
            raise InputError(
                f"{where} has a tensor {own}, for which a {spec.family} model as described has no place"
            )
    return names


def mapped(path: Path, dtype: np.dtype[Any], offset: int, shape: Shape) -> Array:
    """A read-only view of a file; what is looked at is read."""
    return np.memmap(path, dtype, "r", offset, shape).view(np.ndarray)


def _shown(shape: Shape) -> str:
    return " × ".join(map(str, shape))
