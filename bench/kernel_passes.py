"""Whole passes put together from profiled layers, against our estimate of the pass.

LLMServingSim timed each kernel of a layer, and attention of mixed passes: prompts' chunks behind a context
beside decodes. No kernel's curve was fitted on a mixed pass; what a decode's cache costs beside a prompt
(kernel_curves.MIXED) was read from these.
"""

from pathlib import Path

import kernel_tables as tables
import numpy as np
import polars as pl
from numpy.typing import NDArray

from twophase.calibration.curves import curves_of
from twophase.calibration.estimate import pass_times
from twophase.calibration.exchanging import exchanges_s
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.cost.pass_seconds import pass_cost
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model

Floats = NDArray[np.float64]
MODELS = {"Llama-3.1-8B": "llama-3.1-8b", "Qwen3-32B": "qwen3-32b"}
TWICE = ("layernorm",)  # before attention and before the MLP
OUTSIDE = ("embedding", "final_layernorm")


def errors(root: Path) -> dict[tuple[str, str, str], Floats]:
    """Estimated over measured, less one, by machine, model and kind of pass."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for machine in tables.PROFILED:
        for (model, tp), part in tables.profiles(root, machine, "attention").group_by("model", "tp"):
            if model in MODELS:
                for kind, away in _passes(root, machine, str(model), int(str(tp)), part):
                    found.setdefault((machine, f"{model} TP{tp}", kind), []).append(away)
    return {key: np.array(each) for key, each in sorted(found.items())}


def _passes(
    root: Path, machine: str, model: str, tp: int, attention: pl.DataFrame
) -> list[tuple[str, float]]:
    gpu = load_accelerator(machine)
    own = Deployment(load_model(MODELS[model]).spec, plan=Plan(tp=tp))
    times = pass_times(own, gpu, "none", max_rows=4096, max_sequences=512)
    rows = np.arange(4097.0)
    times = times._replace(  # each device was profiled alone
        rows_s=times.rows_s - exchanges_s(own, gpu, curves_of(gpu), rows),
        decode_rows_s=times.decode_rows_s - exchanges_s(own, gpu, curves_of(gpu), rows),
    )
    dense, outside, head = _lines(root, machine, model, tp)
    found = []
    layers = len(own.spec.layers)
    for new, kept, decodes, context, seconds in attention.select(
        "prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "s"
    ).iter_rows():
        shape = np.array([[new, kept]] * (new > 0) + [[1, context]] * decodes)
        sequences = len(shape)
        if (new and new < 32) or new + decodes > 2048:
            continue
        whole = layers * (_at(dense, new + decodes) + seconds)
        whole += _at(outside, new + decodes) + _at(head, sequences)
        guess = pass_cost(times, shape[:, 0], shape[:, 1], sequences)[0]
        kind = "mixed" if new and decodes else "prefill" if new else "decode"
        found.append((kind, guess / whole - 1))
    return found


def _lines(root: Path, machine: str, model: str, tp: int) -> tuple[Floats, Floats, Floats]:
    """Seconds by rows: of a layer without attention, of what stands outside the layers, of the head."""
    mine = (pl.col("model") == model) & (pl.col("tp") == tp)
    table = tables.profiles(root, machine, "dense").filter(mine)
    outer = pl.col("layer").is_in(OUTSIDE)
    often = pl.when(pl.col("layer").is_in(TWICE)).then(2).otherwise(1)
    heads = tables.profiles(root, machine, "per_sequence").filter(mine & (pl.col("layer") == "lm_head"))
    return (
        _line(table.filter(~outer).with_columns(pl.col("s") * often), "tokens"),
        _line(table.filter(outer), "tokens"),
        _line(heads, "sequences"),
    )


def _line(table: pl.DataFrame, by: str) -> Floats:
    return table.group_by(by).agg(pl.col("s").sum()).sort(by).select(by, "s").to_numpy().T


def _at(line: Floats, rows: int) -> float:
    return float(np.interp(rows, line[0], line[1]))


def table(root: Path) -> list[str]:
    lines = ["| machine | model | passes | count | median | p90 | bias |", "|---|---|---|---|---|---|---|"]
    for (machine, model, kind), away in errors(root).items():
        low, high = np.quantile(np.abs(away), [0.5, 0.9])
        lines.append(
            f"| {machine} | {model} | {kind} | {len(away):,} | {low:.1%} | {high:.1%} "
            f"| {np.median(away):+.1%} |"
        )
    return lines
