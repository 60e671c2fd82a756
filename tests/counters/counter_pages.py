"""Pages of counters for tests: those of pages/, and small ones written out."""

import json
from collections.abc import Mapping
from pathlib import Path

from twophase.counters.page import Read, read_page
from twophase.counters.reading import Beside, Reading, read_pair

PAGES = Path(__file__).parent / "pages"
EXPECTED: Mapping[str, Mapping[str, float | None]] = json.loads((PAGES / "expected.json").read_text())


def page(text: str, source: str = "page") -> Read:
    return read_page(text.encode(), source)


def stored(name: str) -> Read:
    return read_page((PAGES / name).read_bytes(), name)


def reading(first: str, second: str, seconds: float | None = 300, beside: Beside | None = None) -> Reading:
    """The one reading of two texts."""
    (found,) = read_pair(page(first, "first"), page(second, "second"), seconds, beside or Beside())
    return found


def of_engine(name: str, beside: Beside | None = None) -> Reading:
    (found,) = read_pair(stored(f"{name}_t0.txt"), stored(f"{name}_t1.txt"), 300, beside or Beside())
    return found
