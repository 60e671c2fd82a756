"""Labels of a chart: each where it lies on no line, no point and no other label, or left out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, hypot, log10
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from twophase.report.vega import FAINT, LINE, Range, Spec, curve, values

Align = Literal["left", "center", "right"]
T = TypeVar("T")
Point = tuple[float, float]
Pixels = NDArray[np.float64]  # [points, 2]: to the right of the plot's left edge, down from its top
SIZE, LETTER = 11.5, 6.5  # of the font, and across one of its letters
AIR = 4.0  # between two labels on one line
STEP = 3.0  # pixels between the points that stand for a line


@dataclass(frozen=True, slots=True)
class Frame:
    """The plot within its axes: pixels, and the domains that they show. x is logarithmic."""

    width: int
    height: int
    x: Range
    y: Range
    log_y: bool = True

    def pixel(self, x: float, y: float) -> Point:
        right = self.width * log10(x / self.x[0]) / log10(self.x[1] / self.x[0])
        if self.log_y:
            return right, self.height * log10(self.y[1] / y) / log10(self.y[1] / self.y[0])
        return right, self.height * (self.y[1] - y) / (self.y[1] - self.y[0])

    def data(self, right: float, down: float) -> Point:
        """What lies at a pixel."""
        x = self.x[0] * (self.x[1] / self.x[0]) ** (right / self.width)
        if self.log_y:
            return x, self.y[1] * (self.y[0] / self.y[1]) ** (down / self.height)
        return x, self.y[1] + (self.y[0] - self.y[1]) * down / self.height


@dataclass(frozen=True, slots=True)
class Tag:
    """Text beside a point, of one line or more."""

    x: float
    y: float
    text: str
    colour: str
    align: Align = "left"
    dx: float = 0.0
    dy: float = 0.0  # of the first line's middle, downward


def around(x: float, y: float, text: str, colour: str, sides: str) -> list[Tag]:
    """The tag at each of the sides, in their order: r(ight), l(eft), a(bove), b(elow), and R, L: those above,
    and S, M: those below."""
    places: dict[str, tuple[Align, float, float]] = {
        "r": ("left", 8, 0),
        "l": ("right", -8, 0),
        "a": ("center", 0, -13),
        "b": ("center", 0, 14),
        "R": ("left", 4, -11),
        "L": ("right", -4, -11),
        "S": ("left", 5, 11),
        "M": ("right", -5, 11),
    }
    return [Tag(x, y, text, colour, *places[side]) for side in sides]


def along(frame: Frame, points: Sequence[Point]) -> Pixels:
    """Pixels of a line, close enough that no label slips between them."""
    corners = [frame.pixel(*point) for point in points]
    found = corners[:1]
    for (left, up), (right, down) in pairwise(corners):
        number = ceil(hypot(right - left, down - up) / STEP) or 1
        shares = [i / number for i in range(1, number + 1)]
        found += [(left + share * (right - left), up + share * (down - up)) for share in shares]
    return np.array(found).reshape(-1, 2)


def spot(frame: Frame, point: Point) -> Pixels:
    """What a point covers."""
    right, down = frame.pixel(*point)
    return np.array([(right + dx, down + dy) for dx in (-3, 0, 3) for dy in (-3, 0, 3)])


def settle(frame: Frame, wanted: Iterable[Sequence[Tag]], taken: Sequence[Pixels]) -> list[Tag]:
    """Of each label's candidates the first that is clear of all that is taken and of the labels before it."""
    full = np.concatenate([np.zeros((0, 2)), *taken])
    kept: list[Tag] = []
    boxes: list[tuple[float, float, float, float]] = []
    for candidates in wanted:
        for tag in candidates:
            left, top, right, bottom = box = box_of(frame, tag)
            inside = left >= 0 and right <= frame.width + 2 and top >= -2 and bottom <= frame.height
            within = (full > (left, top)).all(-1) & (full < (right, bottom)).all(-1)
            apart = all(left > r + AIR or right < l_ - AIR or top > b or bottom < t for l_, t, r, b in boxes)
            if inside and apart and not within.any():
                kept.append(tag)
                boxes.append(box)
                break
    return kept


def box_of(frame: Frame, tag: Tag) -> tuple[float, float, float, float]:
    """Left, top, right, bottom in pixels."""
    right, down = frame.pixel(tag.x, tag.y)
    lines = tag.text.split("\n")
    wide = LETTER * max(map(len, lines))
    left = right + tag.dx - {"left": 0.0, "center": wide / 2, "right": wide}[tag.align]
    top = down + tag.dy - LINE / 2
    return left, top, left + wide, top + LINE * len(lines)


def ends_first(items: Sequence[T]) -> list[T]:
    """For labels: the last, then from the first on."""
    return [*items[-1:], *items[:-1]]


def dotted(points: Sequence[Point]) -> Spec:
    made = curve(points, FAINT, width=1.5)
    return {**made, "mark": {**made["mark"], "strokeDash": [1, 3]}}


def covered(frame: Frame, tag: Tag) -> Pixels:
    """What a label covers."""
    left, top, right, bottom = box_of(frame, tag)
    across, down = np.meshgrid(np.arange(left, right, STEP), np.arange(top, bottom, STEP))
    return np.stack([across.ravel(), down.ravel()], -1)


def layer(tag: Tag) -> Spec:
    mark = {"type": "text", "text": tag.text.split("\n"), "color": tag.colour, "fontSize": SIZE}
    place = {"align": tag.align, "baseline": "middle", "dx": tag.dx, "dy": tag.dy, "lineHeight": LINE}
    return {"data": values([(tag.x, tag.y)]), "mark": {**mark, **place, "aria": False}, "channels": None}
