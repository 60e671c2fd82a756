"""Lists of sizes on the command line: 1,16,128 and ranges 1:64:x2 (doubling) or 1:64:+8 (in steps)."""

from twophase.errors import InputError

LARGEST = 10_000_000  # tokens
MOST = 10_000  # sizes in one list
FORMS = "give sizes like 1,16,128 or ranges like 1:64:x2 or 1:64:+8"


def sizes_of(option: str, text: str, largest: int = LARGEST) -> list[int]:
    """The sizes in the order given, ranges opened, their ends included where they are hit."""
    sizes: list[int] = []
    for part in text.split(","):
        sizes += (
            _range(option, part.strip(), largest) if ":" in part else [_size(option, part.strip(), largest)]
        )
        if len(sizes) > MOST:
            raise InputError(f"{option}: more than {MOST:,} sizes; give fewer, or a wider step")
    return sizes


def _size(option: str, text: str, largest: int) -> int:
    sign, digits = (text[:1], text[1:]) if text[:1] in ("-", "+") else ("", text)
    if not (digits.isascii() and digits.isdecimal()):
        raise InputError(f"{option}: {text!r} is not a size; {FORMS}")
    size = int(digits) if len(digits) <= 18 else largest + 1
    if sign == "-" or size == 0:
        raise InputError(f"{option}: {text} must be at least 1")
    if size > largest:
        raise InputError(f"{option}: {text} is too large; at most {largest:,}")
    return size


def _range(option: str, text: str, largest: int) -> list[int]:
    parts = text.split(":")
    if len(parts) != 3 or parts[2][:1] not in ("x", "+") or not parts[2][1:].isdecimal():
        raise InputError(f"{option}: {text!r} is not a range; {FORMS}")
    first, last = _size(option, parts[0], largest), _size(option, parts[1], largest)
    grows_by, step = parts[2][0], _size(option, parts[2][1:], largest)
    if first > last:
        raise InputError(f"{option}: {text!r} ends before it begins; {FORMS}")
    if grows_by == "+":
        return list(range(first, last + 1, step)[: MOST + 1])
    if step == 1:
        raise InputError(f"{option}: {text!r} never ends: multiply by 2 or more")
    sizes = []
    while first <= last:
        sizes.append(first)
        first *= step
    return sizes
