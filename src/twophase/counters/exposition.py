"""Prometheus' text formats, the classic one and OpenMetrics, as engines really write them.

A sample is `name{label="value",...} number [timestamp] [# exemplar]`. Lines end in a line feed and nothing
else: label values may hold every other separator that Unicode has.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

Labels = tuple[tuple[str, str], ...]  # sorted by name
Series = tuple[str, Labels]

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
# Nothing is tried twice (*+, ++), so that no line takes longer than its length.
SAMPLE = re.compile(
    r"""(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)?+[ \t]*+
        (?:\{(?P<labels>(?:[^"{}\#]++|"(?:[^"\\]++|\\.)*+")*+)\})?+
        [ \t]*+(?<=[ \t}])(?P<value>[^\s{}"\#]++)
        (?:[ \t]++(?P<time>[^\s{}"\#]++))?+
        [ \t]*+(?:\#.*)?""",
    re.VERBOSE | re.DOTALL,
)
LABEL = re.compile(
    r"""[ \t]*+(?:(?P<name>[a-zA-Z_:][a-zA-Z0-9_:.]*+)|"(?P<quoted>(?:[^"\\]++|\\.)*+)")[ \t]*+
        (?:=[ \t]*+"(?P<value>(?:[^"\\]++|\\.)*+)"[ \t]*+)?+(?:,|$)""",
    re.VERBOSE | re.DOTALL,
)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
MILLISECONDS = 1e11  # beyond it a timestamp can't be seconds: the classic format has milliseconds
SHOWN = 60  # letters of a damaged line


@dataclass(frozen=True, slots=True)
class Damaged:
    line: int  # from 1
    why: str


@dataclass(frozen=True, slots=True)
class Page:
    samples: Mapping[Series, float]
    types: Mapping[str, str]  # by family: counter, gauge, histogram, summary ...
    time_s: float | None  # Unix seconds of the latest sample that has a timestamp
    damaged: tuple[Damaged, ...]


def parse(text: str) -> Page:
    """All that can be read; lines that can't are named. Of a series that comes twice the first counts."""
    samples: dict[Series, float] = {}
    types: dict[str, str] = {}
    damaged: list[Damaged] = []
    known: dict[str, tuple[str, Labels] | None] = {}
    latest: float | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t\r")
        if not line:
            continue
        if line[0] == "#":
            _comment(line, types)
            continue
        found = SAMPLE.fullmatch(line)
        value = number_of(found["value"]) if found else None
        if found is None or value is None:
            damaged.append(Damaged(number, f"no sample: {_shown(line)}"))
            continue
        written = found["labels"] or ""
        if written not in known:
            known[written] = labels_of(written)
        read = known[written]
        name = found["name"] or (read[0] if read else "")
        if read is None or not name or (found["name"] and read[0]):
            damaged.append(Damaged(number, f"labels can't be read: {_shown(line)}"))
            continue
        series = (name, read[1])
        if series in samples:
            damaged.append(Damaged(number, f"a series that the page has already: {_shown(line)}"))
            continue
        samples[series] = value
        stamp = number_of(found["time"]) if found["time"] else None
        if stamp is not None and isfinite(stamp):
            seconds = stamp / 1000 if stamp > MILLISECONDS else stamp
            latest = seconds if latest is None else max(latest, seconds)
    return Page(samples, types, latest, tuple(damaged))


def number_of(text: str) -> float | None:
    """A float as Go and Python write it; None where it is none."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def labels_of(text: str) -> tuple[str, Labels] | None:
    """(the metric's name where it stands quoted among them, labels); None where they can't be read."""
    at, name, found = 0, "", {}
    text = text.strip(" \t")
    while at < len(text):
        label = LABEL.match(text, at)
        if label is None:
            return None
        own = label["name"] if label["name"] is not None else unescaped(label["quoted"])
        if label["value"] is not None:
            if own in found:
                return None
            found[own] = unescaped(label["value"])
        elif label["quoted"] is not None and not name and not found:
            name = own  # {"any.name", label="value"}: Prometheus 3's form for names with other letters
        else:
            return None
        at = label.end()
    return name, tuple(sorted(found.items()))


def unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return ESCAPE.sub(lambda own: {"n": "\n", '"': '"', "\\": "\\"}.get(own[1], own[0]), text)


def _comment(line: str, types: dict[str, str]) -> None:
    words = line.split(None, 3)
    if len(words) == 4 and words[:2] == ["#", "TYPE"]:
        types[words[2].strip('"')] = words[3].strip().lower()


def _shown(line: str) -> str:
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
