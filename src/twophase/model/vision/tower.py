"""What the counting of one kind of tower takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from twophase.model.keys import Keys


@dataclass(frozen=True, slots=True)
class Tower:
    """`name`: its model_type in transformers; `layers`, `width`: the keys that say so, first present wins."""

    name: str
    parameters: Callable[[Keys], int]
    defaults: Mapping[str, Any]  # of transformers 5.24's config class
    layers: tuple[str, ...] = ("num_hidden_layers",)
    width: tuple[str, ...] = ("hidden_size",)
