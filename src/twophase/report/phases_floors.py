"""Floors of TTFT and ITL against length, with the parts that make them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from twophase.cost.communication import communication_s, exchanges
from twophase.cost.phases import PhaseRow
from twophase.cost.roofline import floor
from twophase.cost.spans import Spans, decodes, prefills
from twophase.report.labels import Frame, Point, Tag, along, around, dotted, ends_first, layer, settle, spot
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
)
from twophase.units import count, duration

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
WIDTH, HEIGHT = 340, 142  # pixels of a plot
MOST_TICKS, MOST_CURVES, SAMPLES = 14, 5, 160


@dataclass(frozen=True, slots=True)
class FloorCurve:
    """A floor and its parts against length, in ms."""

    lengths: Ints
    compute: Floats
    memory: Floats
    seconds: Floats
    communication: Floats

    def points(self, of: Floats) -> list[Point]:
        return list(zip(self.lengths.tolist(), of.tolist(), strict=True))


Named = tuple[str, FloorCurve, Sequence[PhaseRow]]  # the name is empty where there is only one


def ttft(report: PhasesReport) -> Spec:
    """Floor of TTFT against prompt tokens, its parts dashed, and where compute begins to bind."""
    rows = report.phases.prefill
    lengths = _lengths([row.tokens for row in rows])
    own = _floor_curve(report, lengths, prefills(lengths))
    frame = _frame(lengths, [own])
    turn = report.phases.crossover_prompt_floor
    return _floors(frame, "Prompt (tokens)", "TTFT (ms)", [("", own, rows)], PREFILL, turn, "compute")


def itl(report: PhasesReport) -> Spec:
    """Floor of ITL against context, its parts dashed; of several batches a curve each, and no parts."""
    groups = by_batch(report.phases.decode)
    groups = [groups[i] for i in _spread(len(groups), MOST_CURVES)]
    lengths = _lengths([row.tokens for _, rows in groups for row in rows])
    found = []
    for batch, rows in groups:
        mine = ceil(batch / report.deployment.plan.dp)
        own = _floor_curve(report, lengths, decodes(mine, lengths))
        found.append((count(batch) if len(groups) > 1 else "", own, rows))
    found.sort(key=lambda each: float(each[1].seconds[-1]))
    name, last, rows = found[-1]
    turn = None
    if name:
        found[-1] = (f"batch {name}", last, rows)
    else:
        bound = np.flatnonzero(np.diff((last.memory > last.compute).astype(np.int8)) == 1)
        turn = int(lengths[bound[0] + 1]) if bound.size else None
    frame = _frame(lengths, [own for _, own, _ in found])
    return _floors(frame, "Context (tokens)", "ITL (ms)", found, DECODE, turn, "memory")


def _floors(
    frame: Frame,
    across: str,
    up: str,
    curves: Sequence[Named],
    colour: str,
    turn: int | None,
    binds: str,
) -> Spec:
    """Curves with their rows: a single one with its parts, several with names; `binds` binds from `turn`."""
    *_, (name, main, _) = curves
    solid = [own.points(own.seconds) for _, own, _ in curves]
    parts = [] if name else [("compute", main.compute), ("memory", main.memory)]
    dashed = [(part, _within(frame, main.points(times))) for part, times in parts]
    moved = _within(frame, main.points(main.communication)) if main.communication.any() else []
    rows = [(row.tokens, row.floor_s * 1e3) for _, _, own in curves for row in own]
    line = [(float(turn), frame.y[0]), (float(turn), frame.y[1])] if turn and _in(turn, frame.x) else []
    taken = [along(frame, points) for points in (*solid, *(points for _, points in dashed), moved, line)]
    taken += [spot(frame, point) for point in rows]
    wanted = [_turn_tag(frame, line[0][0], f"{binds}-bound from {count(line[0][0])}")] if line else []
    named = [(text, points[-1]) for (text, _, _), points in zip(curves, solid, strict=True) if text]
    wanted += _name_tags(frame, named[::-1], colour)
    values: list[list[Tag]] = []
    if not name:
        spoken = ends_first(rows) if len(rows) <= MOST_TICKS else [rows[-1], rows[0]]
        values = [around(x, y, duration(y / 1e3), colour, "LaRSb") for x, y in spoken]
    wanted += values[:2]
    wanted += [_part_tag(part, points, main, FAINT) for part, points in dashed]
    wanted.append(_part_tag(f"communication{f', {name}' if name else ''}", moved, main, INK))
    wanted += values[2:]
    ticks = sorted({x for x, _ in rows})
    every_row = len(ticks) <= MOST_TICKS
    made = chart(
        axis(across, log_scale(*frame.x), ticks if every_row else decades(*frame.x)),
        _y_axis(frame, up),
        [
            *([dotted(line)] if line else []),
            *(curve(points, FAINT, width=1.25, dashed=True) for _, points in dashed),
            *([_dash_dotted(moved)] if moved else []),
            *(curve(points, colour, width=2) for points in solid),
            *([dots(rows, colour)] if every_row else []),
            *map(layer, settle(frame, wanted, taken)),
        ],
    )
    return {**made, "width": frame.width, "height": frame.height}


def _y_axis(frame: Frame, title: str) -> Spec:
    if frame.log_y:
        made = axis(title, log_scale(*frame.y), decades(*frame.y))
    else:
        made = axis(title, {"domain": list(frame.y), "nice": False}, None, ",~f")
    made["axis"]["minExtent"] = 38  # so that the plots of both floors begin on one line
    return made


def _name_tags(frame: Frame, ends: Sequence[tuple[str, Point]], colour: str) -> list[list[Tag]]:
    """To the right of the curves' ends, which are given from the top down; lower where they are close."""
    tags, last = [], -LINE
    for text, end in ends:
        down = frame.pixel(*end)[1]
        last = max(down, last + LINE + 0.5)
        tags.append([Tag(*end, text, colour, dx=8, dy=last - down)])
    return tags


def _turn_tag(frame: Frame, at: float, text: str) -> list[Tag]:
    spots = [(frame.data(0, down)[1], sides) for down, sides in ((9, "lr"), (HEIGHT - 9, "rl"))]
    return [tag for y, sides in spots for tag in around(at, y, text, FAINT, sides)]


def _part_tag(name: str, points: Sequence[Point], main: FloorCurve, colour: str) -> list[Tag]:
    """A part's name along its line, from the end that is farther below the floor."""
    under = dict(main.points(main.seconds))
    below = [(x, y) for x, y in points if y < 0.8 * under[x]] or points
    spots = sorted(below, key=lambda point: point[1] / under[point[0]])[:: max(1, len(below) // 60)]
    return [each for x, y in spots for each in around(x, y, name, colour, "SbMaLRrl")]


def _dash_dotted(points: Sequence[Point]) -> Spec:
    made = curve(points, INK, width=1.25)
    return {**made, "mark": {**made["mark"], "strokeDash": [8, 3, 1.5, 3]}}


def _floor_curve(report: PhasesReport, lengths: Ints, spans: Spans) -> FloorCurve:
    own = floor(report.deployment, spans, report.accelerator)
    moved = communication_s(exchanges(report.deployment, spans, report.accelerator), own.seconds)
    return FloorCurve(lengths, *(1e3 * each for each in (own.compute_s, own.memory_s, own.seconds, moved)))


def _lengths(asked: Sequence[int]) -> Ints:
    """Whole tokens evenly over the logarithmic axis; around a single one for a while."""
    low, high = min(asked), max(asked)
    if high < 4 * low:
        low, high = max(1, low // 4), 4 * high
    return np.unique(np.r_[np.geomspace(low, high, SAMPLES).round(), asked].astype(np.int64))


def _frame(lengths: Ints, curves: Sequence[FloorCurve]) -> Frame:
    """y from zero where the floors are of one size, logarithmic where they are not."""
    floors = np.concatenate([own.seconds for own in curves])
    beside = max(float(own.communication.max()) for own in curves)
    low, high = float(floors.min()), max(float(floors.max()), beside)
    x = (lengths[0] / 1.15, lengths[-1] * 1.15)
    below = 12.0  # so much of the lesser part is shown
    if len(curves) > 1:
        x, below = (x[0], x[1] * (x[1] / x[0]) ** 0.24), 3.0  # room for names, no parts
    if high < 6 * low:
        return Frame(WIDTH, HEIGHT, x, (0.0, 1.3 * high), log_y=False)
    return Frame(WIDTH, HEIGHT, x, (low / below, high * max(3.0, (high / low) ** 0.25)))


def _within(frame: Frame, points: Sequence[Point]) -> list[Point]:
    return [(x, y) for x, y in points if _in(y, frame.y)]


def _in(value: float, domain: tuple[float, float]) -> bool:
    return domain[0] <= value <= domain[1]


def _spread(number: int, most: int) -> list[int]:
    """Indices of at most so many, evenly from the first to the last."""
    return sorted({round(i) for i in np.linspace(0, number - 1, min(number, most))})
