"""Parameters of the parts that towers are made of, and checked reads of their sizes."""

from twophase.errors import InputError
from twophase.model.keys import Keys


def size(keys: Keys, *names: str) -> int:
    """The count under the first of these names that the file has, else the last one's default.

    A null that the file writes is refused: no tower is built from it.
    """
    name = next((each for each in names if each in keys.config), names[-1])
    if name in keys.config and keys.config[name] is None:
        raise InputError(f"{keys.where}: {name} is null; it must be a whole number of at least 1")
    return keys.count(name)


def switch(keys: Keys, name: str) -> bool:
    """A true or false; a written null is refused."""
    if name in keys.config and keys.config[name] is None:
        raise InputError(f"{keys.where}: {name} is null; it must be true or false")
    return keys.switch(name)


def listed(keys: Keys, name: str) -> int:
    """How many entries a list has."""
    value = keys.given(name)
    if not isinstance(value, list | tuple):
        raise InputError(f"{keys.where}: {name} is {value!r:.40}; it must be a list")
    return len(value)


def pair(keys: Keys, name: str) -> tuple[int, int]:
    """Height and width, written as one number or as two."""
    value = keys.given(name)
    if not isinstance(value, list | tuple):
        side = size(keys, name)
        return side, side
    if len(value) != 2:
        raise InputError(f"{keys.where}: {name} is {value!r:.40}; it must be one whole number or two")
    height, width = (Keys({name: each}, {}, keys.where).count(name) for each in value)
    return height, width


def patches(keys: Keys) -> int:
    """Patches of one square image."""
    return int((size(keys, "image_size") // size(keys, "patch_size")) ** 2)


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return (inputs + bias) * outputs


def norm(width: int, bias: bool = True) -> int:
    return (1 + bias) * width


def mlp(width: int, inner: int, *, gated: bool = False, bias: bool = True) -> int:
    return (1 + gated) * linear(width, inner, bias) + linear(inner, width, bias)


def block(
    width: int,
    inner: int,
    *,
    qkv_bias: bool = True,
    out_bias: bool = True,
    gated: bool = False,
    mlp_bias: bool = True,
    norm_bias: bool = True,
) -> int:
    """One encoder layer: attention over heads that fill the width, an MLP, and a norm before each."""
    attention = linear(width, 3 * width, qkv_bias) + linear(width, width, out_bias)
    return attention + mlp(width, inner, gated=gated, bias=mlp_bias) + 2 * norm(width, norm_bias)
