"""PassTimes from kernels' curves: every multiply of a device, its exchanges, small kernels and the host."""

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curves import AttentionCurve, Curves
from twophase.calibration.engines import Engine, engine_named, padded
from twophase.calibration.exchanging import exchanges_s
from twophase.calibration.experts import grouped_s
from twophase.calibration.floors import floor_times, stage_mixes
from twophase.calibration.gemm import gemm_s
from twophase.calibration.kernels import kernel_of
from twophase.calibration.shapes import Gemm, StageShapes, stage_shapes
from twophase.cost import pass_times as columns
from twophase.cost.deployment import Deployment, device_stages, kv_arithmetic
from twophase.cost.pass_times import PassTimes
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
SMALL_KERNELS = 6  # of a layer: two norms, rotation, cache write, activation, and one more


def curve_times(
    own: Deployment,
    accelerator: Accelerator,
    curves: Curves,
    engine: str,
    max_rows: int,
    max_sequences: int,
) -> PassTimes:
    """Of one data-parallel replica; pipeline stages come one after the other."""
    known = engine_named(engine)
    floor = floor_times(own, accelerator, max_rows, max_sequences)
    rows = np.arange(max_rows + 1.0)
    device = rows_s(own, accelerator, curves, rows)
    graphs = tuple(size for size in known.graphs if size <= max_rows)
    decode = device[padded(rows, graphs).astype(np.intp)]
    host = (rows > 0) * known.pass_s
    times = floor._replace(
        rows_s=device + host,
        decode_rows_s=decode + host,
        logits_s=_logits_s(own, accelerator, curves, known, np.arange(max_sequences + 1.0)),
        mixers=_mixers(own, accelerator, curves, floor.mixers),
    )
    return _above(times, floor)


def _above(times: PassTimes, floor: PassTimes) -> PassTimes:
    """A curve that would beat arithmetic, where it is extrapolated, is held at it."""
    mixers = np.maximum(times.mixers, floor.mixers)
    return times._replace(
        rows_s=np.maximum(times.rows_s, floor.rows_s),
        decode_rows_s=np.maximum(times.decode_rows_s, floor.decode_rows_s),
        logits_s=np.maximum(times.logits_s, floor.logits_s),
        mixers=mixers,
    )


def rows_s(own: Deployment, accelerator: Accelerator, curves: Curves, rows: Floats) -> Floats:
    total = np.zeros_like(rows)
    for stage in stage_shapes(own):
        for each in stage.gemms:
            total += each.times * _gemm_s(own, accelerator, curves, each, rows)
        for grouped in stage.grouped:
            total += grouped.times * grouped_s(own, accelerator, curves, grouped, rows)
        total += _small_s(own, accelerator, curves, stage, rows)
    return total + exchanges_s(own, accelerator, curves, rows)


def _gemm_s(own: Deployment, accelerator: Accelerator, curves: Curves, each: Gemm, rows: Floats) -> Floats:
    curve = curves.gemm[kernel_of(each.format, own.arithmetic, accelerator)]
    return gemm_s(curve, accelerator, rows, each.outputs, each.inputs, each.weight_bytes)


def _small_s(
    own: Deployment, accelerator: Accelerator, curves: Curves, stage: StageShapes, rows: Floats
) -> Floats:
    """Norms, rotation, activation and so on: each reads and writes about two vectors of d_model a row."""
    count = SMALL_KERNELS * stage.layers + 3 * stage.moe_layers
    moved = rows * own.spec.d_model * 2.0 * 3.0
    each = curves.small_launch_s + moved / (curves.small_memory * accelerator.bandwidth)
    return np.asarray((rows > 0) * count * each)


def _logits_s(
    own: Deployment, accelerator: Accelerator, curves: Curves, engine: Engine, rows: Floats
) -> Floats:
    total = np.zeros_like(rows)
    for stage in stage_shapes(own):
        for each in stage.heads:
            total += each.times * _gemm_s(own, accelerator, curves, each, rows)
    return np.asarray(total + rows * engine.sequence_s)


def _mixers(own: Deployment, accelerator: Accelerator, curves: Curves, floor: Floats) -> Floats:
    found = floor.copy()
    found[:, columns.PROMPT_PASS_S : columns.DECODE_TOKEN_S + 1] = 0.0
    at = {int(window): i for i, window in enumerate(floor[:, columns.WINDOW])}
    peak, bandwidth = accelerator.peak(kv_arithmetic(own)), accelerator.bandwidth
    for stage in device_stages(own):
        for each in (stage, stage.uncached) if stage.uncached else (stage,):
            for mix, layers in stage_mixes(own, each):
                row = found[at[mix.window]]
                _prompt(row, layers, curves.prompt, mix.pair_flops / peak, mix.token_bytes / bandwidth)
                row[columns.PROMPT_TOKEN_S] += layers * mix.token_flops / (0.6 * peak)
                row[columns.PROMPT_SPAN_S] += layers * mix.span_bytes / (0.7 * bandwidth)
                row[columns.DECODE_PASS_S] += layers * curves.decode.launch_s
                row[columns.DECODE_SPAN_S] += layers * (
                    curves.decode.span_s + mix.span_bytes / (0.7 * bandwidth)
                )
                row[columns.DECODE_TOKEN_S] += layers * max(
                    mix.token_bytes / bandwidth / curves.decode.memory,
                    mix.decode_pair_flops / peak / curves.decode.compute,
                )
    return found


def _prompt(row: Floats, layers: int, curve: AttentionCurve, pair_s: float, token_s: float) -> None:
    row[columns.PROMPT_PASS_S] += layers * curve.launch_s
    row[columns.PROMPT_SPAN_S] += layers * curve.span_s
    row[columns.PROMPT_PAIR_S] += layers * pair_s / curve.compute
    row[columns.PROMPT_TOKEN_S] += layers * token_s / curve.memory
