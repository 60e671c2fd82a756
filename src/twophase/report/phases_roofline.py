"""The roofline of an accelerator with both phases of a model on it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import atan, degrees, log10

import numpy as np

from twophase.cost.phases import PhaseRow
from twophase.report.labels import (
    LETTER,
    Frame,
    Pixels,
    Point,
    Tag,
    along,
    around,
    covered,
    dotted,
    ends_first,
    layer,
    settle,
    spot,
)
from twophase.report.phases import PhasesReport, by_batch
from twophase.report.vega import (
    DECODE,
    FAINT,
    INK,
    LINE,
    PREFILL,
    Spec,
    axis,
    chart,
    curve,
    decades,
    dots,
    log_scale,
    values,
    written,
)
from twophase.units import count, quantity, significant

WIDTH, HEIGHT = 340, 362  # pixels of the plot: at a phone's width its text stays readable


@dataclass(frozen=True, slots=True)
class Roof:
    """A peak of the accelerator; `used` is the one that the blocks' matmuls have."""

    name: str
    flops: float
    used: bool


def roofline(report: PhasesReport) -> Spec:
    """Every row of the tables at its intensity and attainable FLOP/s, under the accelerator's roofs."""
    prefill, decode = report.phases.prefill, report.phases.decode
    bandwidth, ridge, every = report.accelerator.bandwidth, report.ridge, roofs(report)
    passes = [_point(row) for row in (*prefill, *decode)]
    low, top = min(x for x, _ in passes), max(roof.flops for roof in every)
    frame = Frame(
        *(WIDTH, HEIGHT),
        x=(min(low / 2, ridge / 8), max(20 * ridge, 3 * top / bandwidth, 3 * max(x for x, _ in passes))),
        y=(min(y for _, y in passes) / 3, 2 * top),
    )
    start = max(frame.x[0], frame.y[0] / bandwidth)  # where the slope enters the plot
    bent = [(start, start * bandwidth), (ridge, report.peak_flops), (frame.x[1], report.peak_flops)]
    fainter = [
        [(roof.flops / bandwidth, roof.flops), (frame.x[1], roof.flops)] for roof in every if not roof.used
    ]
    if top > report.peak_flops:
        fainter.append([(ridge, report.peak_flops), (top / bandwidth, top)])
    turned = [(ridge, frame.y[0]), (ridge, report.peak_flops)]
    upward = degrees(atan(HEIGHT / log10(frame.y[1] / frame.y[0]) / (WIDTH / log10(frame.x[1] / frame.x[0]))))
    taken = [along(frame, line) for line in (bent, turned, *fainter)]
    taken += [spot(frame, point) for point in passes]
    slope = _slope_tag(frame, [start, *(x for x, _ in passes if start < x < ridge), ridge], bandwidth, upward)
    taken.append(_turned_box(frame, slope, upward))
    tags = settle(frame, _roof_tags(frame, every, bandwidth, ridge), taken)
    tags += _key(frame, report, [*taken, *(covered(frame, tag) for tag in tags)])
    taken += [covered(frame, tag) for tag in tags]
    tags += settle(frame, _row_tags(frame, report), taken)
    one = " of one device" if report.parallel else ""
    made = chart(
        axis("Arithmetic intensity (FLOP/byte)", log_scale(*frame.x), decades(*frame.x)),
        axis(f"Attainable FLOP/s{one}", log_scale(*frame.y), decades(*frame.y), "~s"),
        [
            *(curve(line, FAINT, width=1) for line in fainter),
            curve(bent, INK, width=2),
            dotted(turned),
            written(slope.x, slope.y, slope.text, upward),
            dots([_point(row) for row in prefill], PREFILL),
            _diamonds([_point(row) for row in decode]),
            *map(layer, tags),
        ],
    )
    return {**made, "width": WIDTH, "height": HEIGHT}


def roofs(report: PhasesReport) -> list[Roof]:
    """The peak in use, and beside it those in 16 and 8 bits."""
    own = report.accelerator
    eight = next((dtype for dtype in ("fp8", "int8") if dtype in own.flops), None)
    names = [report.arithmetic, own.arithmetic, *([eight] if eight else [])]
    known = [name for name in names if name in own.flops] or [own.arithmetic]
    by_flops = {own.flops[name]: name for name in reversed(known)}  # one line where two peaks are equal
    used = report.peak_flops
    by_flops.setdefault(used, next(name for name, flops in own.flops.items() if flops == used))
    return [Roof(name, flops, flops == used) for flops, name in by_flops.items()]


def _roof_tags(frame: Frame, every: Sequence[Roof], bandwidth: float, ridge: float) -> list[list[Tag]]:
    tags = []
    for roof in every:
        above = roof.used or roof.flops > max(each.flops for each in every if each.used)
        text = f"{roof.name.upper()} {quantity(roof.flops, 'FLOP/s')}"
        colour = INK if roof.used else FAINT
        dy = -11 if above else 11
        places = [frame.x[1] * (ridge / frame.x[1]) ** share for share in (0.0, 0.25, 0.5)]
        left = Tag(roof.flops / bandwidth, roof.flops, text, colour, "right", -7, -5)
        tags.append(
            [*(Tag(x, roof.flops, text, colour, "right", -2, y) for x in places for y in (dy, -dy)), left]
        )
    foot = frame.data(0, frame.height - 10)[1]
    tags.append(around(ridge, foot, f"ridge {significant(ridge)} FLOP/byte", FAINT, "rl"))
    return tags


def _key(frame: Frame, report: PhasesReport, taken: Sequence[Pixels]) -> list[Tag]:
    """What the colours and sizes mean, where both find room together."""
    groups = by_batch(report.phases.decode)
    decode = (
        f"decode, batch {count(groups[0][0])}:\ncontext tokens" if len(groups) == 1 else "decode:\nbatch size"
    )
    prefill = "prefill:\nprompt tokens"
    wide, tall = LETTER * max(map(len, decode.split("\n"))), 4 * LINE
    right, low = frame.width - wide - 4, frame.height - tall - 24
    spots = [(right, low), (4.0, 10.0), (4.0, 40.0), (4.0, 80.0), (right, low / 2)]
    both = [Tag(*frame.data(*spot), f"{prefill}\n{decode}", INK) for spot in spots]
    return [
        part
        for tag in settle(frame, [both], taken)
        for part in (
            replace(tag, text=prefill, colour=PREFILL),
            replace(tag, text=decode, colour=DECODE, dy=tag.dy + 2 * LINE),
        )
    ]


def _row_tags(frame: Frame, report: PhasesReport) -> list[list[Tag]]:
    """A size for each row that has room, the ends first: of several batches each batch, once."""
    prefill, groups = report.phases.prefill, by_batch(report.phases.decode)
    if len(groups) == 1:
        sized = [(row, count(row.tokens)) for row in ends_first(groups[0][1])]
    else:
        sized = [(rows[0], count(batch)) for batch, rows in ends_first(groups)]
    tags = [around(*_point(row), text, DECODE, "rSbMl") for row, text in sized]
    for row in ends_first(prefill):
        sides = "bMSrl" if row.intensity >= report.ridge else "lLaR"
        tags.append(around(*_point(row), count(row.tokens), PREFILL, sides))
    return tags


def _point(row: PhaseRow) -> Point:
    return row.intensity, row.flops / row.roofline_s


def _turned_box(frame: Frame, tag: Tag, upward: float) -> Pixels:
    """What a word written along a line covers."""
    right, down = frame.pixel(tag.x, tag.y)
    angle = np.radians(upward)
    at = np.arange(-3.5 * len(tag.text), 3.5 * len(tag.text), 3.0)[:, None]
    off = np.array([-4.0, -9.0, -14.0])[None, :]
    covered = (
        right + at * np.cos(angle) + off * np.sin(angle),
        down - at * np.sin(angle) + off * np.cos(angle),
    )
    return np.stack([each.ravel() for each in covered], -1)


def _slope_tag(frame: Frame, xs: Sequence[float], bandwidth: float, upward: float) -> Tag:
    """The bandwidth, between the two neighbours of xs that are farthest apart and where the plot has room."""
    gaps = sorted(pairwise(sorted(xs)), key=lambda pair: pair[0] / pair[1])
    middles = [(low * high) ** 0.5 for low, high in gaps]
    tags = [Tag(x, x * bandwidth, quantity(bandwidth, "B/s"), INK) for x in middles]
    return next((tag for tag in tags if _turned_box(frame, tag, upward).min() >= 2), tags[0])


def _diamonds(points: Sequence[Point]) -> Spec:
    mark = {"type": "point", "shape": "diamond", "filled": True, "size": 44, "color": DECODE, "opacity": 1}
    return {"data": values(points), "mark": {**mark, "aria": False}, "channels": None}
