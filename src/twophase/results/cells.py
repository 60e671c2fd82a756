"""What a cell says: numbers, counts, formats, as tools and people write them."""

import math
import re
from functools import lru_cache

NOTHING = {"", "-", "–", "n/a", "na", "none", "null", "unstated", "unknown"}
NUMBERS = (int, float, str)
THOUSANDS = re.compile(r"[~≈]?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?)", re.IGNORECASE)
OFFLINE = re.compile(r"offline\s+(\d+)", re.IGNORECASE)
UNLIMITED = re.compile(r"(?:inf(?:inity)?|max|all|fleet|saturated|unlimited|rate)\b", re.IGNORECASE)
PARALLEL = re.compile(r"(tp|pp|dp|ep)\s*([0-9]{0,9})", re.IGNORECASE)
KV_BESIDE = re.compile(r"(.+?)\s*\+\s*(\w+)\s*kv", re.IGNORECASE)
FORMATS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float8": "fp8",
    "fp8_block": "fp8",
    "fp8_e4m3": "fp8",
    "int4_wo": "int4",
    "int4_g32": "int4-g32",
    "int8_wo": "int8",
    "awq": "int4",
    "gptq": "int4",
    "4bit": "int4",
    "8bit": "int8",
}


def is_empty(cell: object) -> bool:
    if isinstance(cell, str):
        return not cell[:1].isdigit() and cell.strip().lower() in NOTHING
    return cell is None


def number(cell: object, loose: bool = False) -> float | None:
    """A finite number ≥ 0, or None where the cell is not one. `loose` drops words behind: "~289 actual"."""
    if isinstance(cell, bool) or not isinstance(cell, NUMBERS):
        return None
    try:
        value = float(cell)
    except OverflowError:
        return None
    except ValueError:
        text = str(cell).strip()
        found = THOUSANDS.match(text)
        if not found or (not loose and found.end() != len(text)):
            return None
        if loose and text[found.end() : found.end() + 1] not in ("", " ", "("):
            return None
        value = float(found[1].replace(",", ""))
    return value if math.isfinite(value) and value >= 0 else None


@lru_cache
def concurrency(cell: str) -> tuple[bool, float | None]:
    """(understood, clients): None for as many as there are ("max", "inf", "rate 24/s")."""
    text = cell.strip()
    found = OFFLINE.fullmatch(text)
    value = number(found[1] if found else text, loose=True)
    return (value is not None or bool(UNLIMITED.match(text))), value or None


@lru_cache
def parallel(cell: str, field: str) -> tuple[str, int | None] | None:
    """(field, ways) of a parallel size: 8, "TP8", "EP32" (another field than its column's). None: not one."""
    value = number(cell)
    if value is not None:
        return (field, int(value) or None) if value.is_integer() else None
    found = PARALLEL.fullmatch(cell.strip())
    return (found[1].lower(), int(found[2]) if found[2] else None) if found else None


@lru_cache
def formats(cell: str) -> tuple[str, str | None]:
    """(weights, kv) of a precision: "int4 g32 w-only" is int4, "fp4 + fp8 kv" both."""
    text = cell.strip().lower()
    beside = KV_BESIDE.fullmatch(text)
    if beside:
        return formats(beside[1])[0], FORMATS.get(beside[2], beside[2])
    first = text.split()[0]
    # "4-5 bit" and "bf16/int8" leave open which: they stay as written.
    return (text if text.endswith(" bit") else FORMATS.get(first, first)), None


@lru_cache
def truth(cell: str) -> bool | None:
    """True, False, or None where the cell says neither. A mode is "agg" or "disagg"."""
    said = cell.strip().lower()
    if said in {"true", "yes", "1", "disagg", "disaggregated"}:
        return True
    return False if said in {"false", "no", "0", "agg", "aggregated"} else None
