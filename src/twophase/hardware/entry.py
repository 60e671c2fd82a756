"""Accelerators as entries of a file, TOML or JSON: read with every key checked, and written again."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from twophase.errors import InputError, damaged, nearest, require_regular
from twophase.hardware.accelerator import DTYPES, ETHERNET_100G, PCIE_4, Accelerator, Kind, Link

REQUIRED = ("flops", "memory_bytes", "bandwidth")
TEXTS = ("title", "vendor", "price_date", "kind")
KEYS = (
    *("title", "vendor", "aliases", "kind", "flops", "memory_bytes", "marketed_bytes", "bandwidth"),
    *("devices_per_node", "intra", "inter", "price_per_hour", "price_date", "sources"),
)
SOURCES = ("flops", "memory", "bandwidth", "links", "price")
LEAST, MOST = 1e6, 1e21  # of FLOP/s, bytes, bytes/s: nothing smaller or larger is meant
LARGEST_FILE = 1 << 20
LONGEST_TEXT = 500


def read_entries(path: Path) -> dict[str, Accelerator]:
    """All entries of a user's file by name; InputError names the file, the entry and the key."""
    require_regular(path)
    with damaged(path):
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} has more than {LARGEST_FILE >> 20} MiB: not a list of accelerators")
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if text.lstrip()[:1] in ("{", "[") and path.suffix != ".toml" else None
        content = tomllib.loads(text) if content is None else content
    if not isinstance(content, dict) or not content:
        raise InputError(f"{path} has no accelerator: give one table a device, like [my-gpu]")
    return {name: accelerator_of(name, entry, "user", f"{path}: ") for name, entry in content.items()}


def accelerator_of(name: str, entry: object, kind: Kind, origin: str = "") -> Accelerator:
    """One entry; `kind` where it states none, `origin` begins the line of an InputError."""
    where = f"{origin}[{name if len(name) < LONGEST_TEXT else name[:40]}]"
    if not any(letter.isalnum() for letter in name) or not name.isprintable() or len(name) > LONGEST_TEXT:
        raise InputError(f"{where}: give a name of letters and digits")
    if not isinstance(entry, dict):
        hint = " (a file holds one table a device, like [my-gpu])" if name in KEYS else ""
        raise InputError(f"{where} is not a table of an accelerator's figures{hint}")
    _known(entry, KEYS, where)
    missing = [key for key in REQUIRED if key not in entry]
    if missing:
        raise InputError(f"{where} lacks {', '.join(missing)}")
    memory_bytes = _size(entry, "memory_bytes", "bytes, 80e9 for 80 GB", where)
    texts = {key: _text(entry[key], f"{where} {key}") for key in TEXTS if key in entry}
    if texts.get("kind", kind) not in get_args(Kind):
        raise InputError(f"{where} kind = {texts['kind']!r}: one of {', '.join(get_args(Kind))}")
    links = {} if "intra" in entry and "inter" in entry else {"links": "assumed where not stated"}
    return Accelerator(
        name=name,
        title=texts.get("title", name),
        vendor=texts.get("vendor", ""),
        flops=_flops(entry["flops"], where),
        memory_bytes=memory_bytes,
        marketed_bytes=_size(entry, "marketed_bytes", "bytes", where)
        if "marketed_bytes" in entry
        else memory_bytes,
        bandwidth=_size(entry, "bandwidth", "bytes/s, 3.35e12 for 3.35 TB/s", where),
        devices_per_node=_count(entry.get("devices_per_node", 1), f"{where} devices_per_node"),
        intra=_link(entry["intra"], f"{where} intra") if "intra" in entry else PCIE_4,
        inter=_link(entry["inter"], f"{where} inter") if "inter" in entry else ETHERNET_100G,
        price_per_hour=_price(entry, where),
        price_date=texts.get("price_date", ""),
        aliases=_aliases(entry.get("aliases", []), f"{where} aliases"),
        sources={**links, **_sources(entry.get("sources", {}), f"{where} sources")},
        kind=texts.get("kind", kind),  # type: ignore[arg-type]
    )


def entry_of(accelerator: Accelerator) -> dict[str, Any]:
    """What `accelerator_of` reads: plain values in the file's order; what is not known is left out."""
    entry = {
        key: dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        for key in KEYS
        if not isinstance(value := getattr(accelerator, key), Link) and value not in (None, "", (), {})
    }
    links = {key: getattr(accelerator, key) for key in ("intra", "inter")}
    return entry | {
        key: {"bandwidth": link.bandwidth, "latency_s": link.latency_s} for key, link in links.items()
    }


def to_toml(accelerators: Mapping[str, Accelerator], heading: str) -> str:
    """A file that `read_entries` reads back to the same accelerators."""
    lines = [f"# {heading}"]
    for name, accelerator in accelerators.items():
        bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
        lines += ["", f"[{name if bare else _quoted(name)}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in entry_of(accelerator).items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """JSON's escapes are TOML's, but for those of letters beyond the first plane, which need none."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _known(entry: Mapping[str, object], keys: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in keys:
            hint = nearest(key, keys) or f"; known are {', '.join(keys)}"
            raise InputError(f"{where}: unknown key {key!r}{hint}")


def _number(value: object, what: str, expected: str) -> float:
    """A finite number, no truth value; not one so long that no float holds it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MOST < value < MOST:
        raise InputError(f"{what} = {_shown(value)}: must be a number, {expected}")
    return float(value)


def _size(entry: Mapping[str, object], key: str, unit: str, where: str) -> float:
    number = _number(entry[key], f"{where} {key}", f"in {unit}")
    if number < LEAST:
        raise InputError(f"{where} {key} = {number:g}: must be in {unit}")
    return number


def _flops(value: object, where: str) -> dict[str, float]:
    if not isinstance(value, dict) or not value:
        raise InputError(f"{where} flops must be a table of FLOP/s by type, like {{ bf16 = 989e12 }}")
    _known(value, DTYPES, f"{where} flops")
    flops = {
        dtype: _size(value, dtype, "FLOP/s, 989e12 for 989 TFLOP/s", f"{where} flops") for dtype in value
    }
    if not flops.keys() & {"bf16", "fp16", "tf32", "fp32"}:
        raise InputError(f"{where} flops lacks bf16: give that, or fp16 or fp32 where the device has no bf16")
    return flops


def _link(value: object, where: str) -> Link:
    if not isinstance(value, dict) or not {"bandwidth", "latency_s"} >= value.keys() >= {"bandwidth"}:
        raise InputError(f"{where} must be a table like {{ bandwidth = 450e9, latency_s = 2e-6 }}")
    bandwidth = _size(value, "bandwidth", "bytes/s one way, 450e9 for 450 GB/s", where)
    latency = _number(value.get("latency_s", 0.0), f"{where} latency_s", "in seconds")
    if not 0 <= latency <= 1:
        raise InputError(f"{where} latency_s = {latency:g}: must be in seconds, 2e-6 for 2 µs")
    return Link(bandwidth, latency)


def _count(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise InputError(f"{what} = {_shown(value)}: must be a whole number, at least 1")
    return value


def _price(entry: Mapping[str, object], where: str) -> float | None:
    if "price_per_hour" not in entry:
        return None
    price = _number(entry["price_per_hour"], f"{where} price_per_hour", "in USD an hour")
    if price < 0:
        raise InputError(f"{where} price_per_hour = {price:g}: must not be negative")
    return price


def _aliases(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InputError(f"{what} must be a list of names")
    return tuple(_text(each, what) for each in value)


def _sources(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InputError(f"{where} must be a table of texts by {', '.join(SOURCES)}")
    _known(value, SOURCES, where)
    return {key: _text(each, f"{where} {key}") for key, each in value.items()}


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > LONGEST_TEXT:
        raise InputError(f"{what} = {_shown(value)}: must be a text of one line")
    return value


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        text = "a very long number"
    return text if len(text) <= 60 else f"{text[:60]}..."
