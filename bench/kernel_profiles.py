"""Entries of machines of which less was timed: LLMServingSim's profiles by model, and multiplies alone."""

from pathlib import Path
from typing import Any

import kernel_tables as tables
import numpy as np
import polars as pl
from kernel_entries import (
    MATRICES,
    PROFILE_GRIDS,
    TYPES,
    Held,
    fitted,
    keep_phases,
    norm_numbers,
    numbers,
)
from kernel_multiplies import TOUCHED_GRIDS
from kernel_waves import waves, waves_s

from twophase.calibration.experts import grouped_work
from twophase.calibration.gemm import gemm_work
from twophase.calibration.least_squares import affine
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.catalogue import load_accelerator
from twophase.model.formats import format_named

SHAPES = {  # d_model, queries, keys and values together, feed-forward width
    "Llama-3.1-8B": (4096, 4096, 2048, 14336),
    "Qwen3-32B": (5120, 8192, 2048, 25600),
    "Qwen3-30B-A3B-Instruct-2507": (2048, 4096, 1024, 0),
}
HEADS = {"Llama-3.1-8B": (32, 8), "Qwen3-32B": (64, 8), "Qwen3-30B-A3B-Instruct-2507": (32, 4)}
VOCABULARIES = {"Llama-3.1-8B": 128256, "Qwen3-32B": 151936, "Qwen3-30B-A3B-Instruct-2507": 151936}


def profiled(root: Path, machine: str, held: list[Held]) -> dict[str, Any]:
    accelerator = load_accelerator(machine)
    found = {
        "source": "LLMServingSim (casys-kaist, MIT), vLLM 0.19.0",
        "gemm": {"bf16": profiled_gemm(root, machine, accelerator, held)},
        "attention": {"bf16": {"128": profiled_attention(root, machine, accelerator, held)}},
        "small": profiled_small(root, machine, accelerator),
        "fast_link": False,
    }
    experts = tables.profiles(root, machine, "moe")
    if len(experts):
        found["experts"] = {"bf16": profiled_experts(experts, accelerator, held, machine)}
    return found


def profiled_gemm(root: Path, machine: str, accelerator: Accelerator, held: list[Held]) -> dict[str, Any]:
    parts = []
    dense, heads = tables.profiles(root, machine, "dense"), tables.profiles(root, machine, "per_sequence")
    for (model, tp), part in dense.group_by("model", "tp"):
        width, queries, keys, ffn = SHAPES[str(model)]
        shapes = {
            "qkv_proj": ((queries + keys) // tp, width),
            "o_proj": (width, queries // tp),
            "gate_up_proj": (2 * ffn // tp, width),
            "down_proj": (width, ffn // tp),
        }
        for name, (n, k) in shapes.items():
            rows = part.filter(pl.col("layer") == name)
            parts.append(rows.select("model", rows="tokens", n=pl.lit(n), k=pl.lit(k), s="s"))
        rows = heads.filter(
            (pl.col("model") == model) & (pl.col("tp") == tp) & (pl.col("layer") == "lm_head")
        )
        n = VOCABULARIES[str(model)] // int(tp)  # type: ignore[call-overload]
        parts.append(rows.select("model", rows="sequences", n=pl.lit(n), k=pl.lit(width), s="s"))
    table = pl.concat(parts)
    m, n, k, measured = tables.columns(table, "rows", "n", "k", "s")
    # one model in three is held back; where there is but one, one shape in four
    test = (table["model"] == "Qwen3-32B").to_numpy()
    test = test if test.any() else (n == n.min()) & (k == k.min())
    work = gemm_work(m, n, k, n * k * 2.0)
    cold = measured > n * k * 2.0 / accelerator.bandwidth
    found, guess = fitted("bf16", accelerator, work, measured, PROFILE_GRIDS, test, cold)
    keep_phases(held, machine, "gemm", "bf16", m, guess / measured - 1, test & cold)
    return found


def profiled_attention(
    root: Path, machine: str, accelerator: Accelerator, held: list[Held]
) -> dict[str, Any]:
    table = tables.profiles(root, machine, "attention")
    found, size = {}, 128
    heads = np.array([HEADS[name][0] / tp for name, tp in table.select("model", "tp").iter_rows()])
    keys = np.array([max(HEADS[name][1] / tp, 1) for name, tp in table.select("model", "tp").iter_rows()])
    new, context, spans, tokens, measured = tables.columns(
        table, "prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "s"
    )
    cache = spans * tokens * keys * size * 4
    read = cache / accelerator.bandwidth
    decode = np.stack([np.ones_like(new), spans, spans * keys, read, read * np.log2(heads / keys)], 1)
    pairs = new * context + new * (new + 1) / 2
    prompt = np.stack(
        [
            np.ones_like(new),
            np.zeros_like(new),
            new * heads * size * 4 / accelerator.bandwidth,
            new * keys * size * 4 / accelerator.bandwidth,
            pairs * 4 * heads * size / accelerator.peak_flops,
        ],
        1,
    )
    cold = (measured > read) & ~((cache < 1.1 * (96 << 20)) & (read > 0.5 * measured))
    test = (table["model"] == "Qwen3-32B").to_numpy()
    test = test if test.any() else np.arange(len(new)) % 3 == 0
    some = (spans == 0) & (new >= 64)
    one, other = some & ~test, some & test
    own = waves(prompt[one], (new * heads)[one], measured[one])
    away = waves_s(prompt[other], (new * heads)[other], own) / measured[other] - 1
    held.append(Held(machine, "attention, head 128", "bf16", "prefill", away))
    found["prompt"] = numbers(waves(prompt[some], (new * heads)[some], measured[some]))
    some = (new == 0) & (tokens >= 128) & cold
    one, other = some & ~test, some & test
    away = decode[other] @ affine(decode[one], measured[one]) / measured[other] - 1
    held.append(Held(machine, "attention, head 128", "bf16", "decode", away))
    found["decode"] = numbers(affine(decode[some], measured[some]))
    return found


def profiled_experts(
    table: pl.DataFrame, accelerator: Accelerator, held: list[Held], machine: str
) -> dict[str, Any]:
    """Qwen3-30B-A3B's: the profile says how many experts its rows touched."""
    rows, touched, measured = tables.columns(table, "tokens", "activated_experts", "s")
    each = 2.0 * MATRICES * 2048 * 768
    work = grouped_work(rows, 128, 8, 1, 2048, 768, MATRICES, each, touched)
    test = np.arange(len(rows)) % 3 == 0
    every = np.ones(len(rows), bool)
    found, guess = fitted("bf16", accelerator, work, measured, TOUCHED_GRIDS, test, every)
    keep_phases(held, machine, "experts", "bf16", rows, guess / measured - 1, test)
    return found


def profiled_small(root: Path, machine: str, accelerator: Accelerator) -> list[float]:
    """Norms: launch, and the share of the bandwidth beyond it."""
    table = tables.profiles(root, machine, "dense").filter(pl.col("layer") == "layernorm")
    width = np.array([SHAPES[name][0] for name in table["model"]], np.float64)
    rows, measured = tables.columns(table, "tokens", "s")
    return norm_numbers(rows, width, measured, accelerator)


def little_known(root: Path, machine: str, held: list[Held]) -> dict[str, Any]:
    """Multiplies alone; whatever else is taken from the machine that `else` names."""
    accelerator = load_accelerator(machine)
    if machine == "tpu-v6e":
        kernel, table = "bf16", tables.old_profile(root, "TPU-v6e-1")
        source = "LLMServingSim (casys-kaist, MIT), Llama-3.1-8B"
    else:
        kernel, table = next(
            (kernel, table) for name, kernel, table in tables.others(root) if name == machine
        )
        source = {"h20": "alibaba/InferSim (Apache-2.0), DeepGEMM", "mi210": "LLMCompass (BSD-3)"}[machine]
    m, n, k, measured = tables.columns(table, "m", "n", "k", "s")
    weight = n * k * format_named(kernel).bits_per_weight / 8
    test = (n * 7919 + k * 104729 + m * (machine == "mi210")) // 32 % 3 == 0
    work = gemm_work(m, n, k, weight)
    possible = measured > weight / accelerator.bandwidth
    grids = () if machine == "mi210" else PROFILE_GRIDS
    own, guess = fitted(TYPES[kernel], accelerator, work, measured, grids, test, possible)
    keep_phases(held, machine, "gemm", kernel, m, guess / measured - 1, test & possible)
    own["range"] = {"rows": [float(m.min()), float(m.max())]}
    gemm = {name: {**own, "kind": kind} for name, kind in TYPES.items() if name not in ("nvfp4", "mxfp4")}
    return {"source": source, "gemm": gemm, "else": "h100-sxm", "fast_link": True}
