"""Values of a `quantization_config`, checked: a ValueError names the key and what it must be."""

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]

LARGEST = 1 << 20  # of a group, or a side of a block
BITS = 8  # the most that an integer format has


def whole(own: Config, key: str, otherwise: int, least: int = 0, most: int = LARGEST) -> int:
    """A whole number, also as a text of digits; null counts as absent."""
    value = own.get(key)
    return otherwise if value is None else _whole(value, key, least, most)


def bits_of(own: Config, key: str, otherwise: int = 4) -> int:
    return whole(own, key, otherwise, 1, BITS)


def group_of(own: Config, key: str = "group_size", otherwise: int = 0) -> int:
    """Inputs that share a scale; 0 or -1: all of a row."""
    return whole(own, key, otherwise, -1)


def block_of(own: Config, key: str) -> tuple[int, int] | None:
    """[outputs, inputs] that share a scale; None where the key is absent, null or empty."""
    value = own.get(key)
    if value is None or value == []:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{key} is {value!r:.40}; it must be two whole numbers")
    tall, wide = (_whole(side, key, 1, LARGEST) for side in value)
    return tall, wide


def switch(own: Config, key: str, otherwise: bool) -> bool:
    value = own.get(key)
    if value is None:
        return otherwise
    if not isinstance(value, bool):
        raise ValueError(f"{key} is {value!r:.40}; it must be true or false")
    return value


def names_of(own: Config, key: str) -> tuple[str, ...]:
    """A list of modules' names; none where the key is absent or null."""
    value = own.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{key} is {value!r:.40}; it must be a list of modules' names")
    return tuple(value)


def _whole(value: object, key: str, least: int, most: int) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{key} is {value!r:.40}; it must be a whole number from {least} to {most}")
    return value
