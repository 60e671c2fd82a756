"""The charts of a diagnosis: roofline, TTFT against prompt length, ITL against context and batch."""

from collections.abc import Sequence
from math import atan, degrees, log10

from twophase.advise.bend import ttft_at
from twophase.advise.diagnosis import Bend, DecodeRow, PrefillRow, Roofs
from twophase.report.vega import (
    DECODE,
    FAINT,
    HEIGHT,
    INK,
    PREFILL,
    WIDTH,
    Label,
    Spec,
    axis,
    chart,
    curve,
    decades,
    dots,
    log_scale,
    names,
    padded,
    steps,
    vertical,
    written,
)
from twophase.units import count, quantity, significant


def roofline(roofs: Roofs, prefill: Sequence[PrefillRow], decode: Sequence[DecodeRow]) -> Spec:
    """Measured passes under the machine's roof, both axes logarithmic."""
    prefills = [
        Label(row.flops / row.bytes, row.flops / row.ttft_s, count(row.prompt_tokens), beside=False)
        for row in prefill
    ]
    decodes = [
        Label(row.flops / row.bytes, row.flops / row.itl_s, f"batch {row.batch}", beside=True)
        for row in decode
    ]
    passes = [*prefills, *decodes]
    ridge = roofs.ridge_flop_per_byte
    x = (min(0.7 * min(each.x for each in passes), ridge / 4), 2 * max(ridge, *(each.x for each in passes)))
    y = (0.5 * min(each.y for each in passes), 2 * roofs.flops_per_s)
    start = max(x[0], y[0] / roofs.read_bytes_per_s)  # where the slope enters the plot
    middle = (start * ridge) ** 0.5
    roof = [(start, start * roofs.read_bytes_per_s), (ridge, roofs.flops_per_s), (x[1], roofs.flops_per_s)]
    slope = degrees(atan(HEIGHT / log10(y[1] / y[0]) / (WIDTH / log10(x[1] / x[0]))))
    return chart(
        axis("Arithmetic intensity (FLOP/byte)", log_scale(*x), decades(*x)),
        axis("FLOP/s", log_scale(*y), decades(*y), "~s"),
        [
            curve(roof, INK, width=2),
            vertical(ridge, f"ridge {significant(ridge)} FLOP/byte", x),
            written(middle, middle * roofs.read_bytes_per_s, quantity(roofs.read_bytes_per_s, "B/s"), slope),
            written((ridge * x[1]) ** 0.5, roofs.flops_per_s, quantity(roofs.flops_per_s, "FLOP/s")),
            dots([(each.x, each.y) for each in prefills], PREFILL),
            dots([(each.x, each.y) for each in decodes], DECODE),
            *names([*decodes, prefills[-1], *prefills], x, y),
        ],
    )


def ttft_curve(rows: Sequence[PrefillRow], fit: Bend) -> Spec:
    """TTFT against prompt tokens: measured points, their fit, the floor, and where the fit bends upward."""
    tokens = [float(row.prompt_tokens) for row in rows]
    low, high = min(tokens), max(tokens)
    start = max(low, fit.fitted_from_tokens)
    fitted = [(n, ttft_at(fit, n) * 1e3) for n in steps(start, high)]
    y = padded([*(row.ttft_s * 1e3 for row in rows), *(row.floor_s * 1e3 for row in rows)])
    x = padded(tokens)
    bend = fit.bend_prompt_tokens
    return chart(
        axis("Prompt (tokens)", log_scale(*x), tokens),
        axis("TTFT (ms)", log_scale(*y), decades(*y)),
        [
            curve([(row.prompt_tokens, row.floor_s * 1e3) for row in rows], FAINT, dashed=True),
            curve(fitted, PREFILL),
            *([vertical(bend, f"bends at {count(bend)}", x)] if bend else []),
            dots([(row.prompt_tokens, row.ttft_s * 1e3) for row in rows], PREFILL),
        ],
    )


def itl_by_context(rows: Sequence[DecodeRow]) -> Spec:
    return itl_curve([(row.context, row) for row in rows], "Context (tokens), batch 1")


def itl_by_batch(rows: Sequence[DecodeRow]) -> Spec:
    return itl_curve(
        [(row.batch, row) for row in rows], f"Batch (sequences), context {count(rows[0].context)}"
    )


def itl_curve(rows: Sequence[tuple[int, DecodeRow]], title: str) -> Spec:
    """ITL from zero up, measured and floor, against what varies (logarithmic)."""
    x = padded([float(at) for at, _ in rows])
    top = 1.1 * max(max(row.itl_s, row.floor_s) for _, row in rows) * 1e3
    measured = [(at, row.itl_s * 1e3) for at, row in rows]
    return chart(
        axis(title, log_scale(*x), [float(at) for at, _ in rows]),
        axis("ITL (ms)", {"domain": [0, top], "nice": False}, None, ",~f"),
        [
            curve([(at, row.floor_s * 1e3) for at, row in rows], FAINT, dashed=True),
            curve(measured, DECODE),
            dots(measured, DECODE),
        ],
    )
