"""The keys and tensors of a GGUF header, checked as they are asked for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twophase.errors import InputError
from twophase.model.gguf_file import GGUFFile
from twophase.model.keys import LARGEST

Shape = tuple[int, ...]

MOST_LAYERS = 10_000
BLOCK = re.compile(r"blk\.(\d+)\.(.+)")


@dataclass(frozen=True, slots=True)
class Header:
    """An architecture's own keys, and its layers' tensors by the name that they share."""

    file: GGUFFile
    architecture: str
    blocks: Mapping[str, Mapping[int, Shape]]  # "attn_q.weight": {layer: shape, outermost dimension first}

    def count(self, key: str, otherwise: int | None = None, *, least: int = 1, most: int = LARGEST) -> int:
        """An array counts as the one number that it holds for every layer."""
        value = self._value(key, otherwise)
        if isinstance(value, np.ndarray | list):
            value = self._same(key, list(value))
        return self._whole(key, value, least, most)

    def optional(self, key: str) -> int | None:
        """None where the key is absent or 0, as files say that a model has no such thing."""
        return self.count(key, 0, least=0) or None

    def each(self, key: str, layers: int, otherwise: int | None = None) -> list[int]:
        """A number for each layer, 0 where the layer has none; one number is every layer's."""
        value = self._value(key, otherwise)
        values = list(value) if isinstance(value, np.ndarray | list) else [value] * layers
        if len(values) < layers:
            raise InputError(f"{self.name(key)} holds {len(values)} entries for {layers} layers")
        return [self._whole(key, each, 0, LARGEST) for each in values[:layers]]

    def flags(self, key: str, layers: int) -> list[bool] | None:
        """True or false for each layer; None where the key holds no array."""
        value = self.file.metadata.get(f"{self.architecture}.{key}")
        if not isinstance(value, np.ndarray | list):
            return None
        return [bool(each) for each in self.each(key, layers)]

    def number(self, key: str, otherwise: float | None = None) -> float:
        value = self._value(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise InputError(f"{self.name(key)} is {in_line(value)}; it must be a number above zero")
        # Stored as float32: the shortest decimal that reads back as it is what was meant.
        return float(str(np.float32(value)))

    def text(self, key: str, otherwise: str) -> str:
        return str(self.file.metadata.get(f"{self.architecture}.{key}", otherwise))

    def has(self, key: str) -> bool:
        return f"{self.architecture}.{key}" in self.file.metadata

    def stores(self, tensor: str) -> bool:
        """Whether any layer has the tensor: attn_q.bias."""
        return tensor in self.blocks

    def rows(self, tensor: str) -> int | None:
        """Outputs of the matrix, in the first layer that has it; of one expert where it holds many."""
        shape = next(iter(self.blocks.get(tensor, {}).values()), ())
        return shape[-2] if len(shape) > 1 else None

    def name(self, key: str) -> str:
        """As error messages call it."""
        return f"{self.file.path}: {self.architecture}.{key}"

    def _value(self, key: str, otherwise: Any) -> Any:
        value = self.file.metadata.get(f"{self.architecture}.{key}", otherwise)
        if value is None:
            raise InputError(f"{self.name(key)} is missing")
        return value

    def _whole(self, key: str, value: Any, least: int, most: int) -> int:
        flag = isinstance(value, bool | np.bool_) and least > 0
        if flag or not isinstance(value, int | np.integer | np.bool_) or not least <= value <= most:
            raise InputError(
                f"{self.name(key)} is {in_line(value)}; it must be a whole number from {least} to {most}"
            )
        return int(value)

    def _same(self, key: str, values: list[Any]) -> Any:
        if len(set(values)) != 1:
            raise InputError(
                f"{self.name(key)} differs from layer to layer, which no {self.architecture} here does"
            )
        return values[0]


def header_of(file: GGUFFile, architecture: str) -> Header:
    blocks: dict[str, dict[int, Shape]] = {}
    for name, place in file.tensors.items():
        if found := BLOCK.fullmatch(name):
            blocks.setdefault(found[2], {})[int(found[1])] = place.shape
    return Header(file, architecture, blocks)


def in_line(value: Any) -> str:
    """A value as an error shows it, short and on one line, which NumPy's arrays are not."""
    return f"{' '.join(repr(value).split()):.80}"
