"""A model that llama.cpp's gguf-split dealt out over files: NAME-00001-of-00003.gguf and the others."""

import re
from dataclasses import replace
from pathlib import Path

from twophase.errors import InputError
from twophase.model.gguf_file import GGUFFile, read_gguf
from twophase.model.gguf_types import byte_count

PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
COUNT = "split.count"
MOST_PARTS = 10_000


def parts_of(file: GGUFFile) -> list[GGUFFile]:
    """The files of its model in order, or the file alone. InputError where one of them is missing."""
    count = file.metadata.get(COUNT, 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < MOST_PARTS:
        raise InputError(f"{file.path} is damaged: its {COUNT} is {count!r:.40}")
    if count <= 1:
        return [file]
    named = PART.fullmatch(file.path.name)
    if not named or int(named[3]) != count:
        raise InputError(
            f"{file.path} is one of {count} parts of a model; its name must end in -00001-of-{count:05}.gguf "
            "for the others to be found"
        )
    parts = []
    for number in range(1, count + 1):
        path = file.path.with_name(f"{named[1]}-{number:05}-of-{named[3]}.gguf")
        if number != int(named[2]) and not path.exists():
            raise InputError(f"{path} does not exist: it is part {number} of the {count} of {file.path.name}")
        parts.append(file if number == int(named[2]) else read_gguf(path, texts=False))
    return parts


def whole(file: GGUFFile) -> GGUFFile:
    """The first part's metadata, with the tensors of all; a tensor's offset is in the file that holds it."""
    return _joined(parts_of(file))


def read_whole(path: Path) -> GGUFFile:
    """`whole` of a file that is all there. InputError where it, or another part of its model, is cut off."""
    parts = parts_of(read_gguf(path, texts=False))
    for part in parts:
        size = part.path.stat().st_size
        for name, place in part.tensors.items():
            if (end := place.offset + byte_count(place)) > size:
                raise InputError(
                    f"{part.path} is cut off: it has {size} bytes, and tensor {name} ends at {end}"
                )
    return _joined(parts)


def _joined(parts: list[GGUFFile]) -> GGUFFile:
    if len(parts) == 1:
        return parts[0]
    metadata = {key: value for key, value in parts[0].metadata.items() if key != COUNT}
    tensors = {name: place for part in reversed(parts) for name, place in part.tensors.items()}
    return replace(parts[0], metadata=metadata, tensors=tensors)
