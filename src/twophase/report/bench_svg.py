"""Charts as plain inline SVG: lines, dots and dashes on linear or logarithmic axes, coloured by the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Literal

Point = tuple[float, float]
Name = tuple[float, float, float]  # left, right, height
Colour = Literal["p", "q", "f"]  # prefill, decode, faint
WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 14, 42  # pixels around the plot
MOST_TICKS = 6
LOG_STEPS: tuple[tuple[float, ...], ...] = (
    *((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3)),
    (1,),
)  # within a decade, finest first
LETTER = 6.2  # pixels of one, about
LINE = 12.0  # of names, one above the other

# of the page's style sheet, which has their colours in light and dark
STYLE = """
.plot text { font-size: 11px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.plot .grid { stroke: var(--grid); stroke-width: 1; } .plot .frame { stroke: var(--faint); stroke-width: 1; }
.plot .l { fill: none; stroke-width: 2; stroke-linejoin: round; }
.plot .d { fill: none; stroke-width: 1.5; stroke-dasharray: 5 4; }
.plot .p { stroke: var(--prefill); } .plot .q { stroke: var(--decode); } .plot .f { stroke: var(--faint); }
.plot circle.p { fill: var(--prefill); stroke: none; } .plot circle.q { fill: var(--decode); stroke: none; }
.plot circle.f { fill: var(--faint); stroke: none; } .plot .thin { fill-opacity: .35; }
.plot .name { fill: var(--ink); }
"""


@dataclass(frozen=True, slots=True)
class Axis:
    title: str
    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """0 at the low end, 1 at the high one; a logarithmic axis has no place for what is not positive."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        return log10(max(value, self.low) / self.low) / log10(self.high / self.low)


@dataclass(frozen=True, slots=True)
class Marks:
    """One series. A vertical line stands at its first point's x, its name beside it."""

    kind: Literal["line", "dash", "dots", "vertical"]
    points: Sequence[Point]
    colour: Colour
    name: str = ""  # written at its last point
    below: bool = False  # the name: under the point, not over it
    at_top: bool = False  # the name: at its highest point, for lines that end alike
    thin: bool = False  # dots of which there are many


def axis(title: str, values: Sequence[float], *, log: bool = False, zero: bool = False) -> Axis:
    """Around these values; zero: from nothing up."""
    known = [each for each in values if each > 0 or not log] or [1.0]
    low, high = min(known), max(known)
    if log:
        return Axis(title, low / 1.15, max(high, low * 1.5) * 1.15, True)
    low = 0.0 if zero else low
    spare = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return Axis(title, low if zero else low - spare, high + spare)


def chart(title: str, x: Axis, y: Axis, series: Sequence[Marks]) -> str:
    """An <svg> that fills its figure; `title` is for readers who can't see it."""
    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_grid(x, y),
    ]
    names: list[Name] = []
    for own in series:
        parts += _drawn(own, x, y, names)
    return "".join([*parts, "</svg>"])


def _grid(x: Axis, y: Axis) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    made = []
    for value in ticks(y):
        down = _down(y, value)
        made.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{down}" y2="{down}"/>')
        made.append(f'<text x="{LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{label(value)}</text>')
    for value in ticks(x):
        across = _across(x, value)
        made.append(f'<line class="frame" x1="{across}" x2="{across}" y1="{bottom}" y2="{bottom + 4}"/>')
        made.append(f'<text x="{across}" y="{bottom + 16}" text-anchor="middle">{label(value)}</text>')
    made.append(f'<line class="frame" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = (LEFT + right) / 2
    made.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x.title)}</text>')
    made.append(
        f'<text transform="translate(12 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.title)}</text>"
    )
    return made


def _drawn(own: Marks, x: Axis, y: Axis, names: list[Name]) -> list[str]:
    places = [(_across(x, px), _down(y, py)) for px, py in own.points]
    if not places:
        return []
    if own.kind == "dots":
        size, thin = (1.6, " thin") if own.thin else (3.2, "")
        return [
            f'<circle class="{own.colour}{thin}" cx="{px}" cy="{py}" r="{size}"/>' for px, py in places
        ] + _named(own, places, names)
    if own.kind == "vertical":
        px = places[0][0]
        line = f'<line class="d {own.colour}" x1="{px}" x2="{px}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        beside = px + 5 + LETTER * len(own.name) < WIDTH
        anchor, at = ("start", px + 5) if beside else ("end", px - 5)
        place = f'x="{at}" y="{HEIGHT - BOTTOM - 8}" text-anchor="{anchor}"'
        return [line, f'<text class="name" {place}>{escape(own.name)}</text>']
    path = "M" + "L".join(f"{px} {py}" for px, py in places)
    drawn = f'<path class="{"l" if own.kind == "line" else "d"} {own.colour}" d="{path}"/>'
    return [drawn, *_named(own, places, names)]


def _named(own: Marks, places: Sequence[Point], names: list[Name]) -> list[str]:
    """At its end, or the middle of its top; further up, or down, where another name is already there."""
    if not own.name:
        return []
    px, py = top(places) if own.at_top else places[-1]
    long = LETTER * len(own.name)
    right = min(max(px, LEFT + long), WIDTH - RIGHT)
    left = right - long
    lowest, highest = HEIGHT - BOTTOM - 4, TOP + 8
    wanted = min(py + 16, lowest) if own.below else max(py - 7, highest)
    steps = sorted(range(-9, 10), key=lambda step: (abs(step), (step < 0) == own.below))
    free = (
        down
        for step in steps
        if highest <= (down := wanted + LINE * step) <= lowest
        and not any(left < end and begin < right and abs(down - at) < LINE for begin, end, at in names)
    )
    down = next(free, wanted)
    names.append((left, right, down))
    beside = f'x="{right}" y="{down:.1f}" text-anchor="end"'
    return [f'<text class="name" {beside}>{escape(own.name)}</text>']


def top(places: Sequence[Point]) -> Point:
    """The middle one of the highest."""
    highest = min(py for _, py in places)
    level = [each for each in places if each[1] == highest]
    return level[len(level) // 2]


def _across(x: Axis, value: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(x.at(value), 0.0), 1.0), 1)


def _down(y: Axis, value: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(y.at(value), 0.0), 1.0), 1)


def ticks(own: Axis) -> list[float]:
    """Round numbers within an axis, six at most."""
    if own.log:
        return _log_ticks(own)
    rough = (own.high - own.low) / MOST_TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
    first = ceil(own.low / step - 1e-9)
    return [at * step for at in range(first, floor(own.high / step + 1e-9) + 1)]


def _log_ticks(own: Axis) -> list[float]:
    low, high = floor(log10(own.low)), ceil(log10(own.high))
    for steps in LOG_STEPS:
        found = [10.0**power * step for power in range(low, high + 1) for step in steps]
        found = [each for each in found if own.low <= each <= own.high]
        if len(found) <= MOST_TICKS:
            return found or [own.low, own.high]
    every = ceil(len(found) / MOST_TICKS)
    return found[::every]


def label(value: float) -> str:
    """1,000 as 1k: a tick has little room."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
