"""PassTimes from kernels' curves: every multiply of a device, its exchanges, small kernels and the host."""

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curve import Curve
from twophase.calibration.curves import Curves
from twophase.calibration.engines import ENGINES, Engine, find_engine, padded
from twophase.calibration.exchanging import dispatches_s, exchanges_s
from twophase.calibration.experts import grouped_s
from twophase.calibration.floors import flat_stages, floor_times, stage_mixes
from twophase.calibration.gemm import gemm_s
from twophase.calibration.kernels import expert_kernel_of, kernel_of
from twophase.calibration.mixing import MixTime, mix_time
from twophase.calibration.shapes import Gemm, StageShapes, stage_shapes
from twophase.cost import pass_times as columns
from twophase.cost.communication import ACTIVATION_BYTES
from twophase.cost.deployment import Deployment
from twophase.cost.pass_times import PassTimes
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
SMALL_KERNELS = 5  # of a layer: two norms, rotation, cache write, activation
MOE_KERNELS = 2  # beside the experts' own: the router's and the sum with shared experts
# Elements that they move for a row: two norms read and write row and residual; a rotation and an activation
# read what the multiply before them made, and write as much or half of it.
NORM_WIDTHS = 8.0
MADE = {"qkv_proj": 2.0, "gate_up_proj": 1.5}


def curve_times(
    own: Deployment,
    accelerator: Accelerator,
    curves: Curves,
    engine: str,
    max_rows: int,
    max_sequences: int,
) -> PassTimes:
    """Of one data-parallel replica; pipeline stages come one after the other."""
    known = find_engine(engine, ENGINES)
    floor = floor_times(own, accelerator, max_rows, max_sequences)
    rows = np.arange(max_rows + 1.0)
    device = rows_s(own, accelerator, curves, rows)
    graphs = tuple(size for size in known.graphs if size <= max_rows)
    decode = device[padded(rows, graphs).astype(np.intp)]
    host = (rows > 0) * known.pass_s
    mixers, row_s = _mixers(own, accelerator, curves, floor.mixers)
    return floor._replace(
        rows_s=np.maximum(device, floor.rows_s) + rows * row_s + host,
        decode_rows_s=np.maximum(decode, floor.decode_rows_s) + host,
        logits_s=np.maximum(
            _logits_s(own, accelerator, curves, known, np.arange(max_sequences + 1.0)), floor.logits_s
        ),
        mixers=np.maximum(mixers, floor.mixers),
    )


def rows_s(own: Deployment, accelerator: Accelerator, curves: Curves, rows: Floats) -> Floats:
    """Of the device alone, by the number of rows alone."""
    total = np.zeros_like(rows)
    for stage in stage_shapes(own):
        for each in stage.gemms:
            total += each.times * _gemm_s(own, accelerator, curves, each, rows)
        total += _grouped_s(own, accelerator, curves, stage, rows)
        total += _small_s(own, accelerator, curves, stage, rows)
    return total + exchanges_s(own, accelerator, curves, rows)


def dealt_s(own: Deployment, accelerator: Accelerator, curves: Curves, rows: Floats) -> tuple[Floats, Floats]:
    """(experts, exchanges): of `rows_s`, what depends on all ranks' rows where experts are dealt out."""
    experts = sum(_grouped_s(own, accelerator, curves, stage, rows) for stage in stage_shapes(own))
    return np.asarray(experts), dispatches_s(own, accelerator, curves, rows)


def _grouped_s(
    own: Deployment, accelerator: Accelerator, curves: Curves, stage: StageShapes, rows: Floats
) -> Floats:
    """Of the routed experts."""
    total = np.zeros_like(rows)
    for grouped in stage.grouped:
        seen = rows * own.plan.dp if grouped.devices > 1 else rows
        kernel = expert_kernel_of(grouped.format, own.arithmetic, accelerator, curves.experts)
        curve = _typed(curves.experts[kernel], own, grouped.format.arithmetic)
        total += grouped.times * grouped_s(curve, accelerator, grouped, seen)
    return total


def _gemm_s(own: Deployment, accelerator: Accelerator, curves: Curves, each: Gemm, rows: Floats) -> Floats:
    kernel = kernel_of(each.format, own.arithmetic, accelerator, curves.gemm)
    curve = _typed(curves.gemm[kernel], own, each.format.arithmetic)
    return gemm_s(curve, accelerator, rows, each.outputs, each.inputs, each.weight_bytes)


def _typed(curve: Curve, own: Deployment, arithmetic: str) -> Curve:
    """8-bit integers multiply as 8-bit floats do, at their own peak."""
    integers = (own.arithmetic or arithmetic) == "int8" and curve.kind == "fp8"
    return curve._replace(kind="int8") if integers else curve


def _small_s(
    own: Deployment, accelerator: Accelerator, curves: Curves, stage: StageShapes, rows: Floats
) -> Floats:
    count = SMALL_KERNELS * stage.layers + MOE_KERNELS * stage.moe_layers
    elements = NORM_WIDTHS * own.spec.d_model * stage.layers
    for each in stage.gemms:
        elements += MADE.get(each.name.rpartition(".")[2], 0.0) * each.outputs * each.times
    moved = rows * elements * ACTIVATION_BYTES / (curves.small_memory * accelerator.bandwidth)
    return np.asarray((rows > 0) * count * curves.small_launch_s + moved)


def _logits_s(
    own: Deployment, accelerator: Accelerator, curves: Curves, engine: Engine, rows: Floats
) -> Floats:
    total = np.zeros_like(rows)
    for stage in stage_shapes(own):
        for each in stage.heads:
            total += each.times * _gemm_s(own, accelerator, curves, each, rows)
    return np.asarray(total + rows * engine.sequence_s)


def _mixers(own: Deployment, accelerator: Accelerator, curves: Curves, floor: Floats) -> tuple[Floats, float]:
    """(PassTimes.mixers, what each row of a prompt adds)."""
    found, row_s = floor.copy(), 0.0
    found[:, columns.PROMPT_PASS_S : columns.DECODE_TOKEN_S + 1] = 0.0
    at = {int(window): i for i, window in enumerate(floor[:, columns.WINDOW])}
    for stage in flat_stages(own):
        for mix, layers in stage_mixes(own, stage):
            each = mix_time(mix, own.kv_bytes, accelerator, curves)
            found[at[mix.window], columns.PROMPT_PASS_S : columns.DECODE_TOKEN_S + 1] += layers * np.array(
                each[: MixTime._fields.index("row_s")]
            )
            found[at[mix.window], columns.MIXED_TOKEN_S] += layers * each.mixed_token_s
            # kinds of layers that share a window: each by its share of the time
            pairs_s = layers * each.prompt_pair_s
            found[at[mix.window], columns.PROMPT_FULL_ROWS] += pairs_s * each.prompt_full_rows
            found[at[mix.window], columns.PROMPT_STEP] += pairs_s * each.prompt_step
            row_s += layers * each.row_s
    waves = [columns.PROMPT_FULL_ROWS, columns.PROMPT_STEP]
    found[:, waves] /= np.maximum(found[:, [columns.PROMPT_PAIR_S]], np.finfo(float).tiny)
    return found, row_s
