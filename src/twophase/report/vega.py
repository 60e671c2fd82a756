"""Building blocks of charts: Vega-Lite specifications as plain dicts, drawn to inline SVG by vl-convert.

Colours are the page's CSS variables, so that one drawing serves light, dark and print.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

from twophase.errors import InputError

Spec = dict[str, Any]  # Vega-Lite's own JSON
Range = tuple[float, float]

WIDTH, HEIGHT = 330, 220  # of the plot within the axes: on a phone it shows at nearly this size
PREFILL, DECODE, INK, FAINT, GRID = (
    *("var(--prefill)", "var(--decode)", "var(--ink)", "var(--faint)", "var(--grid)"),
)
LETTER, LINE = 7.0, 14.0  # a label's pixels: across a letter with air, and from line to line


@dataclass(frozen=True, slots=True)
class Label:
    """A measured pass on the roofline and its name."""

    x: float
    y: float
    text: str
    beside: bool  # to the right of its point, or centred below it


def require_charts() -> None:
    """Raise InputError where vl-convert is missing: to be called before a measurement that wants a page."""
    try:
        import vl_convert  # noqa: F401  # an optional extra
    except ImportError:
        raise InputError(
            "charts need vl-convert: install the extra charts (pip install '.[charts]' in a clone)"
        ) from None


def svg(spec: Spec, title: str) -> str:
    """Draw a specification as inline SVG; `title` is what a screen reader says."""
    require_charts()
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return str(drawn).replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def chart(x: Spec, y: Spec, layers: Sequence[Spec]) -> Spec:
    """Layers over one pair of axes; each layer carries its own points as x and y."""
    for layer in layers:
        encoding = layer.setdefault("encoding", {})
        for name, channel in (("x", x), ("y", y)):
            if layer["channels"] is None or name in layer["channels"]:
                encoding[name] = {"field": name, **channel}
        del layer["channels"]
    text = {"labelColor": FAINT, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12.5}
    lines = {"gridColor": GRID, "domainColor": FAINT, "tickColor": FAINT, "titleFontWeight": "normal"}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "background": None,
        "padding": 4,
        "layer": list(layers),
        "config": {
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": {**text, **lines, "titlePadding": 8},
            "axisX": {"grid": False},
            "axisY": {"domain": False, "ticks": False},
        },
    }


def axis(title: str, scale: Spec, values: Sequence[float] | None, form: str = ",~g") -> Spec:
    ticks = {"values": list(values)} if values is not None else {"tickCount": 5}
    return {
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": title, "format": form, "labelOverlap": "greedy", "labelSeparation": 6, **ticks},
    }


def log_scale(low: float, high: float) -> Spec:
    return {"type": "log", "domain": [low, high], "nice": False}


def padded(values: Sequence[float]) -> Range:
    """A logarithmic domain with air on both sides."""
    return min(values) / 1.25, max(values) * 1.25


def across(x: float, domain: Range) -> float:
    """Pixels from the left edge of a logarithmic axis."""
    return WIDTH * log10(x / domain[0]) / log10(domain[1] / domain[0])


def decades(low: float, high: float) -> list[float]:
    """Ticks at powers of ten, with twos and fives between where those are few."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    parts = (1,) if log10(high / low) > 3.2 else (1, 2, 5)
    return [part * 10.0**power for power in powers for part in parts if low <= part * 10.0**power <= high]


def steps(low: float, high: float, number: int = 60) -> list[float]:
    if high <= low:
        return [low]
    return [low * (high / low) ** (i / (number - 1)) for i in range(number)]


def values(points: Sequence[tuple[float, float]]) -> Spec:
    return {"values": [{"x": x, "y": y, "i": i} for i, (x, y) in enumerate(points)]}


def curve(
    points: Sequence[tuple[float, float]], colour: str, width: float = 1.5, dashed: bool = False
) -> Spec:
    mark = {"type": "line", "color": colour, "strokeWidth": width, "aria": False}
    return {
        "data": values(points),
        "mark": {**mark, **({"strokeDash": [5, 4]} if dashed else {})},
        "encoding": {"order": {"field": "i", "type": "quantitative"}},
        "channels": None,
    }


def dots(points: Sequence[tuple[float, float]], colour: str) -> Spec:
    mark = {"type": "point", "filled": True, "size": 52, "color": colour, "opacity": 1, "aria": False}
    return {"data": values(points), "mark": mark, "channels": None}


def vertical(x: float, text: str, domain: Range) -> Spec:
    """A dotted line at x with its name at the foot of the plot, on the side where it fits."""
    to_the_right = across(x, domain) + 6 + LETTER * len(text) < WIDTH
    name = {
        "type": "text",
        "text": text,
        "color": FAINT,
        "fontSize": 12,
        "align": "left" if to_the_right else "right",
        "dx": 6 if to_the_right else -6,
        "y": HEIGHT - 10,
    }
    return {
        "data": values([(x, 1.0)]),
        "layer": [
            {"mark": {"type": "rule", "color": FAINT, "strokeDash": [1, 3], "strokeWidth": 1.5}},
            {"mark": name},
        ],
        "channels": ("x",),
    }


def written(x: float, y: float, text: str, slope: float = 0.0) -> Spec:
    """A word just above a point, turned up by `slope` degrees."""
    mark = {"type": "text", "text": text, "color": INK, "fontSize": 12, "angle": -slope % 360, "dy": -9}
    return {"data": values([(x, y)]), "mark": mark, "channels": None}


def names(labels: Sequence[Label], x: Range, y: Range) -> list[Spec]:
    """Labels that do not lie on one another, each text once: below prefill's points, beside decode's."""
    kept: dict[str, Label] = {}
    boxes: list[tuple[float, float, float, float]] = []
    for each in labels:
        right = across(each.x, x)
        up = HEIGHT * log10(each.y / y[0]) / log10(y[1] / y[0])
        wide = LETTER * len(each.text)
        left, low = (right + 8, up - 6) if each.beside else (right - wide / 2, up - 21)
        clear = all(
            left > right_ or left + wide < left_ or low > high_ or low + LINE < low_
            for left_, low_, right_, high_ in boxes
        )
        if clear and each.text not in kept:
            kept[each.text] = each
            boxes.append((left, low, left + wide, low + LINE))
    return [
        {
            "data": {
                "values": [
                    {"x": each.x, "y": each.y, "text": each.text}
                    for each in kept.values()
                    if each.beside == beside
                ]
            },
            "mark": {"type": "text", "fontSize": 11.5, "color": colour, "aria": False, **place},
            "encoding": {"text": {"field": "text"}},
            "channels": None,
        }
        for beside, colour, place in (
            (True, DECODE, {"align": "left", "dx": 8, "dy": 3}),
            (False, PREFILL, {"align": "center", "dy": 15}),
        )
    ]
