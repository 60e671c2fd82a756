"""Curves of multiplies, experts and exchanges, of machines in ai-dynamo/aiconfigurator's tables."""

from pathlib import Path
from typing import Any

import kernel_tables as tables
import numpy as np
import polars as pl
from kernel_entries import (
    FORMATS,
    MATRICES,
    ROWS,
    TYPES,
    Bools,
    Floats,
    Held,
    entry,
    fitted,
    keep_phases,
    numbers,
)
from kernel_fits import Work, grids_of

from twophase.calibration.curve import Curve, curve_s
from twophase.calibration.curves import curve_of
from twophase.calibration.experts import grouped_work
from twophase.calibration.gemm import gemm_work
from twophase.hardware.accelerator import Accelerator
from twophase.model.formats import format_named

WIDTHS = (256, 1024, 2048, 4096, 8192, 16384, 65536)
DEPTHS = (256, 1024, 2048, 4096, 8192, 16384)
ELEMENTS = tuple(2.0**power for power in (17, 20, 22, 23, 24, 25, 26, 28))
GEMM_GRIDS = (
    ("rows", ROWS, "outputs", WIDTHS),
    ("rows", ROWS, "inputs", DEPTHS),
    ("rows", ROWS, "elements", ELEMENTS),
)
BLOCK_GRIDS = (("rows", (1024, 4096, 16384), "elements", (2.0**20, 2.0**24, 2.0**28)),)
FEW_ROWS = (1, 4, 16, 64, 256, 1024)
PER_EXPERT = (1, 2, 4, 8, 16, 32, 64, 128, 512, 2048)
SIZES = tuple(2.0**power for power in (18, 20, 21, 22, 23, 25))
TOUCHED = (1, 4, 16, 64, 256)
TOUCHED_GRIDS = (("rows", PER_EXPERT, "touched", TOUCHED),)
EXPERT_GRIDS = (
    ("rows", PER_EXPERT, "inter", (128, 512, 1024, 2048, 8192)),
    ("rows", FEW_ROWS, "hidden", (1024, 2048, 4096, 8192)),
    *TOUCHED_GRIDS,
    ("elements", SIZES, "touched", TOUCHED),
    ("devices", (1, 2, 4, 8, 16), "rows", FEW_ROWS),
)
PAYLOADS = tuple(2.0**power for power in range(10, 31, 2))


def gemm_curves(root: Path, machine: str, accelerator: Accelerator, held: list[Held]) -> dict[str, Any]:
    table = tables.kernel_table(root, machine, "gemm", "gemm")
    assert table is not None
    found: dict[str, Any] = {}
    usual = pl.col("n").is_between(256, 65536) & pl.col("k").is_between(256, 16384) & (pl.col("m") <= 16384)
    for theirs, kernel in tables.KERNELS.items():
        part = table.filter(usual & (pl.col("gemm_dtype") == theirs))
        if not len(part):
            continue
        m, n, k, measured = tables.columns(part, "m", "n", "k", "latency")
        weight = n * k * format_named(FORMATS.get(kernel, kernel)).bits_per_weight / 8
        work = gemm_work(m, n, k, weight)
        test = (n * 7919 + k * 104729) // 256 % 3 == 0
        cold = measured > weight / accelerator.bandwidth
        if kernel == "fp8-block":
            found[kernel], guess, cold = beside_fp8(found["fp8"], accelerator, work, measured, test)
        else:
            found[kernel], guess = fitted(TYPES[kernel], accelerator, work, measured, GEMM_GRIDS, test, cold)
        found[kernel]["range"] = {"rows": [1, 16384], "outputs": [256, 65536], "inputs": [256, 16384]}
        keep_phases(held, machine, "gemm", kernel, m, guess / measured - 1, test & cold)
    return found


def beside_fp8(
    plain: dict[str, Any],
    accelerator: Accelerator,
    work: Work,
    measured: Floats,
    test: Bools,
) -> tuple[dict[str, Any], Floats, Bools]:
    """FP8 with scales by blocks: plain FP8's curve, and a grid of what large multiplies take beyond that.

    Its launch by Python took 50 to 300 us here, longer than most kernels; a captured graph has none of it.
    Only rows that take much longer than that say something of the kernel.
    """
    curve = curve_of(plain)
    flops, moved, features = work
    bare = curve_s(curve, accelerator, flops, moved, features)
    host = float(np.quantile(measured[bare < 20e-6], 0.9))
    busy = (bare > 2 * host) & (measured > 2 * host)

    def beyond(rows: Bools) -> Curve:
        part = {name: each[rows] for name, each in features.items()}
        grids = grids_of(part, np.log(measured[rows] / bare[rows]), BLOCK_GRIDS)
        return curve._replace(grids=(*curve.grids, *grids))

    guess = curve_s(beyond(busy & ~test), accelerator, flops, moved, features)
    return {**entry(beyond(busy)), "rows": int(busy.sum())}, guess, busy


def expert_curves(root: Path, machine: str, accelerator: Accelerator, held: list[Held]) -> dict[str, Any]:
    table = tables.kernel_table(root, machine, "moe", "moe")
    assert table is not None
    table = table.filter(
        (pl.col("distribution") == "power_law_1.01")
        & (pl.col("moe_ep_size") <= 16)
        & (pl.col("moe_tp_size") <= 16)
    )
    found: dict[str, Any] = {}
    for theirs, kernel in tables.KERNELS.items():
        part = expert_rows(table, theirs)
        if not len(part):
            continue
        names = (
            "num_tokens",
            "num_experts",
            "topk",
            "moe_ep_size",
            "hidden_size",
            "inter_size",
            "moe_tp_size",
        )
        rows, experts, top_k, ep, hidden, whole, tp = tables.columns(part, *names)
        (measured,) = tables.columns(part, "latency")
        inter = whole / tp
        bits = format_named(FORMATS.get(kernel, kernel)).bits_per_weight
        work = grouped_work(
            rows, experts, top_k, ep, hidden, inter, MATRICES, MATRICES * hidden * inter * bits / 8
        )
        mixture = (hidden * 7 + whole * 13 + top_k * 31 + experts * 17).astype(np.int64)
        every_mixture, which = np.unique(mixture, return_inverse=True)
        few = len(every_mixture) < 4  # of few mixtures, single sizes are held back instead
        test = (rows + tp * 5 + ep * 3).astype(np.int64) % 3 == 0 if few else which % 3 == 1
        every = np.ones(len(measured), bool)
        found[kernel], guess = fitted(TYPES[kernel], accelerator, work, measured, EXPERT_GRIDS, test, every)
        found[kernel]["range"] = {"hidden": [2048, 7168], "experts": [8, 512], "devices": [1, 16]}
        keep_phases(held, machine, "experts", kernel, rows, guess / measured - 1, test)
    return found


def expert_rows(table: pl.DataFrame, kernel: str) -> pl.DataFrame:
    """gpt-oss has kernels of its own; whoever else has 4-bit weights and 16-bit activations runs Marlin."""
    own = pl.col("kernel_source").str.contains("gptoss")
    if kernel == "int4_wo":
        return table.filter(pl.col("moe_dtype").is_in(["int4_wo", "w4a16_mxfp4"]) & ~own)
    return table.filter((pl.col("moe_dtype") == kernel) & (own | (kernel != "w4a16_mxfp4")))


def exchange_curves(root: Path, machine: str, accelerator: Accelerator, held: list[Held]) -> dict[str, Any]:
    found = {}
    custom = tables.custom_all_reduce(root, machine)
    for name, table in (
        ("all-reduce", tables.nccl(root, machine, "all_reduce") if custom is None else custom),
        ("all-to-all", tables.nccl(root, machine, "alltoall")),
    ):
        seconds = {}
        for devices in (2, 4, 8):
            payload, measured = tables.columns(
                table.filter(pl.col("num_gpus") == devices), "payload", "latency"
            )
            knots = np.interp(np.log(PAYLOADS), np.log(payload), np.log(measured))
            seconds[str(devices)] = numbers(np.exp(knots))
            between = ~np.isin(payload, PAYLOADS) & (payload >= PAYLOADS[0]) & (payload <= PAYLOADS[-1])
            guess = np.exp(np.interp(np.log(payload), np.log(PAYLOADS), knots))
            held.append(Held(machine, name, f"{devices} devices", "both", (guess / measured - 1)[between]))
        found[name] = {"bytes": list(PAYLOADS), "seconds": seconds, "link": accelerator.intra.bandwidth}
    return found
