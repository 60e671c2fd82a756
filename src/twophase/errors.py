"""The one error that a user causes: a line that says what is wrong and what would be right."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

COMPRESSED = (
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"BZh",
    b"\xfd7zXZ",
    b"PK\x03\x04",
)  # gzip, zstd, bzip2, xz, zip
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class InputError(Exception):
    """Bad input. The command line prints its text as one line on stderr and exits with status 2."""


def nearest(name: str, names: Iterable[str]) -> str:
    """'; did you mean a, b?' with the names most like this one, to end an error's line; '' where none is."""
    from difflib import get_close_matches

    wanted = name.strip().lower()
    spelled = {each.lower(): each for each in names}
    begin_so = [each for each in spelled if wanted and each.startswith(wanted)]
    close = [each for each in get_close_matches(wanted, spelled, n=3, cutoff=0.5) if each not in begin_so]
    found = (begin_so + close)[:3]
    return f"; did you mean {', '.join(spelled[each] for each in found)}?" if found else ""


def require_regular(path: Path) -> None:
    """InputError where something is there that is no file: a device never ends, a pipe never begins."""
    if os.path.exists(path) and not path.is_file():  # False for a name too long
        raise InputError(f"{path} is a {'directory' if path.is_dir() else 'device or a pipe'}, not a file")


def not_text(begins: bytes) -> str:
    """What a file is, by its first bytes, that has no UTF-8 text."""
    if begins.startswith(COMPRESSED):
        return "is compressed: unpack it first"
    if begins.startswith(UTF_16):
        return "is UTF-16 text: save it as UTF-8"
    return "is no UTF-8 text"


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Around reading what others wrote: InputError where its content is not what it should be."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} {not_text(error.object)}") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}") from None
