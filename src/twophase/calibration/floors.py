"""PassTimes by arithmetic alone: each operator's own roofline, one after the other.

Where one resource binds all of a pass this is cost.roofline's floor; elsewhere it is a little above it, for a
floor lets arithmetic and traffic of different operators overlap. Of routed experts, those that uniform
routing touches. No communication, no overhead.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.mixers import Mix, mixes
from twophase.cost import pass_times as columns
from twophase.cost.dealt import Dealt
from twophase.cost.deployment import Deployment, Stage, device_stages, kv_arithmetic
from twophase.cost.operators import experts_read
from twophase.cost.pass_times import PassTimes
from twophase.cost.roofline import compute_seconds
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]


def floor_times(own: Deployment, accelerator: Accelerator, max_rows: int, max_sequences: int) -> PassTimes:
    """Of one data-parallel replica: its tp · pp devices."""
    rows, logits = np.arange(max_rows + 1.0), np.arange(max_sequences + 1.0)
    parts = [stage_totals(own, stage, rows) for stage in flat_stages(own)]
    seconds = [
        np.maximum(
            compute_seconds(flops, accelerator), (read + rows * row_bytes(own, stage)) / accelerator.bandwidth
        )
        for (flops, read), stage in zip(parts, flat_stages(own), strict=True)
    ]
    head_flops = {
        kind: logits * each for stage in flat_stages(own) for kind, each in stage.head_flops.items()
    }
    head_bytes = np.where(logits > 0, sum(stage.head_bytes for stage in device_stages(own)), 0.0)
    head = np.maximum(compute_seconds(head_flops, accelerator), head_bytes / accelerator.bandwidth)
    tp = own.plan.tp
    rows_s = np.asarray(sum(seconds))
    kinds = used_types(own)
    devices = tp * own.plan.pp
    return PassTimes(
        rows_s=rows_s,
        decode_rows_s=rows_s,
        logits_s=head,
        mixers=floor_mixers(own, accelerator),
        rows_flops=tp * np.asarray(sum(sum(flops.values()) for flops, _ in parts)),
        rows_bytes=tp * np.asarray(sum(read for _, read in parts)),
        logits_flops=tp * np.asarray(sum(head_flops.values())),
        logits_bytes=tp * head_bytes,
        roofs=devices * np.array([max(map(accelerator.peak, kinds)), accelerator.bandwidth]),
    )


def dealt_floor(own: Deployment, accelerator: Accelerator, max_rows: int) -> Dealt:
    """The routed experts' part of `floor_times`; no exchanges."""
    rows, tp = np.arange(max_rows + 1.0), own.plan.tp
    seconds, all_flops, all_bytes = np.zeros_like(rows), np.zeros_like(rows), np.zeros_like(rows)
    for stage in flat_stages(own):
        flops = {
            kind: rows * a_row for (part, kind), a_row in stage.matrix_flops.items() if part == "experts"
        }
        read = np.zeros_like(rows)
        for each in stage.experts:
            read += (rows > 0) * experts_read(each, rows * own.plan.dp, "expected")
        seconds += np.maximum(compute_seconds(flops, accelerator), read / accelerator.bandwidth)
        all_flops += tp * np.asarray(sum(flops.values()))
        all_bytes += tp * read
    return Dealt(seconds, np.zeros_like(rows), all_flops, all_bytes)


def flat_stages(own: Deployment) -> list[Stage]:
    """Layers that only rows with logits need count beside the others: engines run them for all rows."""
    found = []
    for stage in device_stages(own):
        found += [stage] if stage.uncached is None else [stage, stage.uncached]
    return found


def used_types(own: Deployment) -> set[str]:
    every = {kv_arithmetic(own)}
    for stage in flat_stages(own):
        every |= {kind for _, kind in stage.matrix_flops} | set(stage.head_flops)
    return every


def stage_totals(own: Deployment, stage: Stage, rows: Floats) -> tuple[dict[str, Floats], Floats]:
    """(FLOPs by operands' type, bytes) of one device, by the number of rows alone; without the cache."""
    flops: dict[str, Floats] = {}
    for (_, kind), a_row in stage.matrix_flops.items():
        flops[kind] = flops.get(kind, np.zeros_like(rows)) + rows * a_row
    read = (rows > 0) * sum(stage.matrix_bytes.values()) + rows * stage.gathered_bytes
    distinct = rows * own.plan.dp if own.plan.ep > 1 else rows
    for each in stage.experts:
        read = read + (rows > 0) * experts_read(each, distinct, "expected")
    for mix, layers in stage_mixes(own, stage):
        if mix.row_flops:
            kind = own.arithmetic or "bf16"
            flops[kind] = flops.get(kind, np.zeros_like(rows)) + rows * layers * mix.row_flops
    return flops, np.asarray(read, np.float64)


def row_bytes(own: Deployment, stage: Stage) -> float:
    """Of the cache, that a new row writes: as wide as what is read of a token."""
    return sum(layers * mix.token_bytes for mix, layers in stage_mixes(own, stage))


def stage_mixes(own: Deployment, stage: Stage) -> Iterable[tuple[Mix, int]]:
    for mixer, layers in stage.mixers:
        for mix in mixes(mixer, own.kv_bytes, own.plan.tp):
            yield mix, layers


def floor_mixers(own: Deployment, accelerator: Accelerator) -> Floats:
    """One row for each window; FLOPs and bytes of all devices, seconds of one after the other."""
    found: dict[int, Floats] = {}
    peak, bandwidth = accelerator.peak(kv_arithmetic(own)), accelerator.bandwidth
    for stage in flat_stages(own):
        for mix, layers in stage_mixes(own, stage):
            row = found.setdefault(mix.window, np.zeros(columns.COLUMNS))
            row[columns.WINDOW] = mix.window
            row[columns.PROMPT_PAIR_S] += layers * mix.pair_flops / peak
            row[columns.PROMPT_TOKEN_S] += layers * mix.token_bytes / bandwidth
            row[columns.PROMPT_SPAN_S] += layers * mix.span_bytes / bandwidth
            row[columns.DECODE_SPAN_S] += layers * mix.span_bytes / bandwidth
            row[columns.DECODE_TOKEN_S] += layers * max(mix.token_bytes / bandwidth, mix.pair_flops / peak)
            row[columns.PAIR_FLOPS] += own.plan.tp * layers * mix.pair_flops
            row[columns.TOKEN_BYTES] += own.plan.tp * layers * mix.token_bytes
    return np.array(list(found.values())).reshape(len(found), columns.COLUMNS)
