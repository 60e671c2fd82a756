"""Tables of how far off the curves are: on what was held back, and on what other people timed."""

from collections.abc import Callable
from pathlib import Path

import kernel_passes
import kernel_tables as tables
import numpy as np
import polars as pl
from kernel_entries import Floats, Held

from twophase.calibration.curve import curve_s
from twophase.calibration.curves import curves_of, relative_of
from twophase.calibration.gemm import gemm_work
from twophase.hardware.catalogue import load_accelerator
from twophase.model.formats import format_named


def tables_of(held: list[Held], root: Path) -> str:
    """Markdown."""
    lines = [
        "### By phase\n",
        *table_of(held, lambda h: (h.phase,), "| phase | rows | median | p90 |"),
        "\n### By machine and phase\n",
        *table_of(held, lambda h: (h.machine, h.phase), "| machine | phase | rows | median | p90 |"),
        "\n### By machine, operator and phase\n",
        *table_of(
            held,
            lambda h: (h.machine, h.operator, h.format, h.phase),
            "| machine | operator | format | phase | rows | median | p90 |",
        ),
        "\n### Whole passes, put together from profiled layers\n",
        *kernel_passes.table(root),
        "\n### On other machines, by other people\n",
        *transfers(root),
    ]
    return "\n".join(lines)


def table_of(held: list[Held], key: Callable[[Held], tuple[str, ...]], head: str) -> list[str]:
    groups: dict[tuple[str, ...], list[Floats]] = {}
    for each in held:
        groups.setdefault(key(each), []).append(each.error)
    lines = [head, "|".join(["", *["---"] * (head.count("|") - 1), ""])]
    for name, errors in groups.items():
        away = np.abs(np.concatenate(errors))
        if len(away):
            low, high = np.quantile(away, [0.5, 0.9])
            lines.append(f"| {' | '.join(name)} | {len(away):,} | {low:.1%} | {high:.1%} |")
    return lines


def transfers(root: Path) -> list[str]:
    """A machine's multiplies by its sister's curve, as where nothing was measured; and by another set."""
    lines = ["| machine | curves of | rows | median | p90 | bias |", "|---|---|---|---|---|---|"]
    for machine, other in (("h200", "h100-sxm"), ("h100-sxm", "h200"), ("l40s", "a100-80gb")):
        accelerator, table = load_accelerator(machine), tables.kernel_table(root, machine, "gemm", "gemm")
        assert table is not None
        usual = (pl.col("n") >= 1024) & (pl.col("k") >= 1024) & (pl.col("m") <= 16384)
        part = table.filter(usual & (pl.col("gemm_dtype") == "bfloat16"))
        m, n, k, measured = tables.columns(part, "m", "n", "k", "latency")
        curve = curves_of(load_accelerator(other)).gemm["bf16"]
        guess = curve_s(curve, accelerator, *gemm_work(m, n, k, n * k * 2.0))
        lines.append(row(f"{machine} gemm bf16", other, guess / measured - 1))
    for machine, kernel, table in tables.others(root):
        if machine in ("h20", "mi210"):
            continue  # they have curves of their own
        accelerator = load_accelerator(machine)
        m, n, k, measured = tables.columns(table, "m", "n", "k", "s")
        weight = n * k * format_named(kernel).bits_per_weight / 8
        curves = curves_of(accelerator)
        guess = curve_s(curves.gemm[kernel], accelerator, *gemm_work(m, n, k, weight))
        name = relative_of(accelerator)[0]
        for phase, some in (("decode", m <= 256), ("prefill", m >= 512)):
            if some.any():
                lines.append(row(f"{machine} gemm {kernel}, {phase}", name, guess[some] / measured[some] - 1))
    for machine in ("a100-80gb", "h100-sxm"):
        table = tables.layer_tables(root, machine)
        accelerator, curve = load_accelerator(machine), curves_of(load_accelerator(machine)).gemm["bf16"]
        m, n, k, measured = tables.columns(table, "tokens", "n", "k", "s")
        guess = curve_s(curve, accelerator, *gemm_work(m, n, k, n * k * 2.0))
        layers = (
            table.with_columns(guess=guess)
            .group_by("model", "tp", "tokens")
            .agg(pl.col("s").sum(), pl.col("guess").sum())
        )
        for phase, rows in (("decode", pl.col("tokens") <= 256), ("prefill", pl.col("tokens") >= 512)):
            away = layers.filter(rows).select(pl.col("guess") / pl.col("s") - 1).to_series().to_numpy()
            lines.append(row(f"{machine} a layer's multiplies, {phase} (Vidur)", machine, away))
    return lines


def row(name: str, curves: str, away: Floats) -> str:
    """With the bias: the median of estimated over measured, less one."""
    low, high = np.quantile(np.abs(away), [0.5, 0.9])
    return f"| {name} | {curves} | {len(away):,} | {low:.1%} | {high:.1%} | {np.median(away):+.1%} |"
