"""What a GGUF file says about itself: its metadata and where its tensors lie. No tensor is read.

gguf.GGUFReader builds a Python object for every element of every array, which takes tens of seconds
for a vocabulary of 262,144 tokens; this reads the same in a fraction of one.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian).
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twophase.errors import InputError, require_regular

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
STRING, ARRAY = 8, 9
SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"
}  # fmt: skip
LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor lies: `shape` outermost dimension first, `type_id` as GGML numbers its types."""

    shape: tuple[int, ...]
    type_id: int
    offset: int  # bytes from the file's start


@dataclass(frozen=True, slots=True)
class GGUFFile:
    path: Path
    metadata: dict[str, Any]  # arrays of strings as lists, of numbers as NumPy arrays
    tensors: dict[str, TensorPlace]


def read_gguf(path: Path, texts: bool = True) -> GGUFFile:
    """Read the header. InputError where the file is missing, is no GGUF, or ends too early.

    texts: with its arrays of strings; who wants no vocabulary is faster without, and finds them empty.
    """
    require_regular(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(path, data, texts)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except (struct.error, EOFError):
        raise InputError(f"{path} is cut off: the file ends within its header") from None
    except ValueError:  # an empty file can't be mapped
        raise InputError(f"{path} is empty: a GGUF file begins with the bytes GGUF") from None


def _read(path: Path, data: mmap.mmap, texts: bool) -> GGUFFile:
    if data[:4] != MAGIC:
        raise InputError(f"{path} is not a GGUF file: it doesn't begin with the bytes GGUF")
    version, tensor_count, field_count = struct.unpack_from("<IQQ", data, 4)
    if version not in VERSIONS:
        raise InputError(f"{path} is GGUF version {version}: versions 2 and 3, little-endian, are read")
    at, metadata = 24, {}
    for _ in range(field_count):
        key, at = _string(data, at)
        (type_id,) = struct.unpack_from("<I", data, at)
        metadata[key], at = _value(path, data, at + 4, type_id, texts)
    found = []
    for _ in range(tensor_count):
        name, at = _string(data, at)
        (rank,) = struct.unpack_from("<I", data, at)
        *shape, type_id, offset = struct.unpack_from(f"<{rank}QIQ", data, at + 4)
        at += 16 + 8 * rank
        found.append((name, tuple(reversed(shape)), type_id, offset))
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise InputError(f"{path} is damaged: its general.alignment is {alignment}")
    start = -(-at // alignment) * alignment
    tensors = {name: TensorPlace(shape, type_id, start + offset) for name, shape, type_id, offset in found}
    return GGUFFile(path, metadata, tensors)


def _value(path: Path, data: mmap.mmap, at: int, type_id: int, texts: bool) -> tuple[Any, int]:
    """A metadata value, and where the next thing begins."""
    if type_id == STRING:
        return _string(data, at)
    if type_id == ARRAY:
        item_type, count = struct.unpack_from("<IQ", data, at)
        if item_type == STRING and not texts:
            return [], _behind_strings(data, at + 12, count)
        return _array(path, data, at + 12, item_type, count)
    if type_id not in SCALARS:
        raise InputError(f"{path} is damaged: its metadata names the value type {type_id}")
    scalar = SCALARS[type_id]
    return struct.unpack_from(scalar, data, at)[0], at + struct.calcsize(scalar)


def _array(path: Path, data: mmap.mmap, at: int, item_type: int, count: int) -> tuple[Any, int]:
    if item_type in SCALARS:
        dtype = np.dtype(SCALARS[item_type])
        end = at + count * dtype.itemsize
        if end > len(data):
            raise EOFError
        return np.frombuffer(data[at:end], dtype), end
    if item_type == STRING:
        return _strings(data, at, count)
    raise InputError(f"{path} is damaged: its metadata names an array of the value type {item_type}")


def _strings(data: mmap.mmap, at: int, count: int) -> tuple[list[str], int]:
    """As _string, but without a call for each: a vocabulary has hundreds of thousands."""
    length, size, strings = LENGTH.unpack_from, len(data), []
    for _ in range(count):
        start = at + 8
        at = start + length(data, at)[0]
        if at > size:
            raise EOFError
        strings.append(data[start:at].decode("utf-8", "replace"))
    return strings, at


def _behind_strings(data: mmap.mmap, at: int, count: int) -> int:
    """Where the next thing begins."""
    length, size = LENGTH.unpack_from, len(data)
    for _ in range(count):
        at += 8 + length(data, at)[0]
        if at > size:
            raise EOFError
    return at


def _string(data: mmap.mmap, at: int) -> tuple[str, int]:
    (length,) = LENGTH.unpack_from(data, at)
    start, end = at + 8, at + 8 + length
    if end > len(data):
        raise EOFError
    return data[start:end].decode("utf-8", "replace"), end
