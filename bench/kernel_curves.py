"""Fits the curves of src/twophase/calibration/curves.json, and shows their error on shapes held back.

    TWOPHASE_SHARED=… python bench/kernel_curves.py [--write] [--docs FILE]

A third of the shapes is held back: whole pairs of (n, k), whole mixtures of experts, whole pairs of heads.
The error is of a fit without them; what is shipped is then fitted on all.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import kernel_fits as fits
import kernel_passes
import kernel_tables as tables
import numpy as np
import polars as pl
from numpy.typing import NDArray

from twophase.calibration.curve import Curve, curve_s
from twophase.calibration.curves import curve_of
from twophase.calibration.experts import grouped_work
from twophase.calibration.gemm import gemm_work
from twophase.calibration.least_squares import affine
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.catalogue import load_accelerator
from twophase.model.formats import format_named

Floats = NDArray[np.float64]
FILE = Path(__file__).parents[1] / "src/twophase/calibration/curves.json"

ROWS = (1, 4, 16, 17, 64, 65, 128, 129, 256, 257, 512, 1024, 2048, 4096, 16384)
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
EXPERT_GRIDS = (
    ("rows", PER_EXPERT, "inter", (128, 512, 1024, 2048, 8192)),
    ("rows", FEW_ROWS, "hidden", (1024, 2048, 4096, 8192)),
    ("rows", PER_EXPERT, "touched", TOUCHED),
    ("elements", SIZES, "touched", TOUCHED),
    ("devices", (1, 2, 4, 8, 16), "rows", FEW_ROWS),
)
PROFILE_GRIDS = (("rows", ROWS, "elements", (2.0**20, 2.0**24, 2.0**26, 2.0**28)),)
PAYLOADS = tuple(2.0**power for power in range(10, 31, 2))

TYPES = {"bf16": "bf16", "fp8": "fp8", "fp8-block": "fp8", "nvfp4": "fp4", "w4a16": "bf16", "mxfp4": "bf16"}
FORMATS = {"w4a16": "int4-g32"}
MATRICES = 3
# FlashAttention 2, beside prompts: each query's head reads the cache for itself, half of it from the L2
# cache. Over the bandwidth: once, and for each query that shares a key. Of LLMServingSim's mixed passes (RTX
# 4090, RTX PRO 6000; three models, one and two devices: 0.46 to 0.55); the same kernel runs on the others.
MIXED = [0.1, 0.5]
FLASH_2 = ("a100-80gb", "l40s", "rtx-4090", "rtx-pro-6000-server")
L2_BYTES = {"l40s": 96 << 20}  # where a benchmark's few megabytes never leave the cache, a pass's do


class Held(NamedTuple):
    """Errors of one operator on what was held back."""

    machine: str
    operator: str
    format: str
    phase: str
    error: Floats  # estimated over measured, less one


# -- matrix multiplies ---------------------------------------------------------------------------------------


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
            found[kernel] = fitted(TYPES[kernel], accelerator, work, measured, GEMM_GRIDS, test, cold)
            guess = found[kernel].pop("held")(work)
        found[kernel]["range"] = {"rows": [1, 16384], "outputs": [256, 65536], "inputs": [256, 16384]}
        for phase, rows in (("decode", m <= 256), ("prefill", m >= 512)):
            part_ = test & rows & cold
            held.append(Held(machine, "gemm", kernel, phase, guess[part_] / measured[part_] - 1))
    return found


def beside_fp8(
    plain: dict[str, Any],
    accelerator: Accelerator,
    work: tuple[Floats, Floats, dict[str, Floats]],
    measured: Floats,
    test: NDArray[np.bool_],
) -> tuple[dict[str, Any], Floats, NDArray[np.bool_]]:
    """FP8 with scales by blocks: plain FP8's curve, and a grid of what large multiplies take beyond that.

    Its launch by Python took 50 to 300 us here, longer than most kernels; a captured graph has none of it.
    Only rows that take much longer than that say something of the kernel.
    """
    curve = curve_of(plain)
    flops, moved, features = work
    bare = curve_s(curve, accelerator, flops, moved, features)
    host = float(np.quantile(measured[bare < 20e-6], 0.9))
    busy = (bare > 2 * host) & (measured > 2 * host)

    def beyond(rows: NDArray[np.bool_]) -> Curve:
        part = {name: each[rows] for name, each in features.items()}
        grids = fits.grids_of(part, np.log(measured[rows] / bare[rows]), BLOCK_GRIDS)
        return curve._replace(grids=(*curve.grids, *grids))

    guess = curve_s(beyond(busy & ~test), accelerator, flops, moved, features)
    return {**entry(beyond(busy)), "rows": int(busy.sum())}, guess, busy


def fitted(
    kind: str,
    accelerator: Accelerator,
    work: tuple[Floats, Floats, dict[str, Floats]],
    measured: Floats,
    grids: Any,
    test: NDArray[np.bool_],
    usable: NDArray[np.bool_],
    **known: float,
) -> dict[str, Any]:
    """An entry of the file, of all usable rows; `held`: what the fit without the tested ones estimates."""

    def of(rows: NDArray[np.bool_]) -> Curve:
        flops, moved, features = work
        part = (
            flops[rows],
            moved[rows],
            {name: np.broadcast_to(each, rows.shape)[rows] for name, each in features.items()},
        )
        return fits.fit_curve(kind, accelerator, part, measured[rows], grids, **known)

    without = of(usable & ~test)
    return {
        **entry(of(usable)),
        "rows": int(usable.sum()),
        "held": lambda w: curve_s(without, accelerator, *w),
    }


def entry(curve: Curve) -> dict[str, Any]:
    return {
        "kind": curve.kind,
        "launch_s": float(f"{curve.launch_s:.4g}"),
        "compute": round(curve.compute, 4),
        "memory": round(curve.memory, 4),
        "knee": round(curve.knee, 3),
        "grids": [
            {
                "of": list(grid.features),
                "at": [each.tolist() for each in grid.knots],
                "log": np.round(grid.values, 3).tolist(),
            }
            for grid in curve.grids
        ],
    }


# -- experts -------------------------------------------------------------------------------------------------


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
        found[kernel] = fitted(TYPES[kernel], accelerator, work, measured, EXPERT_GRIDS, test, every)
        away = found[kernel].pop("held")(work) / measured - 1
        found[kernel]["range"] = {"hidden": [2048, 7168], "experts": [8, 512], "devices": [1, 16]}
        for phase, part_ in (("decode", rows <= 256), ("prefill", rows >= 512)):
            held.append(Held(machine, "experts", kernel, phase, away[test & part_]))
    return found


def expert_rows(table: pl.DataFrame, kernel: str) -> pl.DataFrame:
    """gpt-oss has kernels of its own; whoever else has 4-bit weights and 16-bit activations runs Marlin."""
    own = pl.col("kernel_source").str.contains("gptoss")
    if kernel == "int4_wo":
        return table.filter(pl.col("moe_dtype").is_in(["int4_wo", "w4a16_mxfp4"]) & ~own)
    return table.filter((pl.col("moe_dtype") == kernel) & (own | (kernel != "w4a16_mxfp4")))


# -- attention -----------------------------------------------------------------------------------------------


def attention_curves(root: Path, machine: str, accelerator: Accelerator, held: list[Held]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    prompts = tables.kernel_table(root, machine, "attention", "context_attention")
    steps = tables.kernel_table(root, machine, "attention", "generation_attention")
    assert prompts is not None and steps is not None
    for theirs, kv in (("bfloat16", "bf16"), ("fp8", "fp8")):
        for size in (64, 128, 256):
            one, other = (usual_heads(each, theirs, size) for each in (prompts, steps))
            if not len(one) or not len(other):
                continue
            found.setdefault(kv, {})[str(size)] = {
                "prompt": prompt_attention(machine, accelerator, one, kv, size, held),
                "decode": decode_attention(machine, accelerator, other, kv, size, held),
            }
    return found


def usual_heads(table: pl.DataFrame, kv: str, size: int) -> pl.DataFrame:
    if "window_size" in table.columns:
        table = table.filter(pl.col("window_size") == 0)
    return table.filter((pl.col("kv_cache_dtype") == kv) & (pl.col("head_dim") == size))


def prompt_attention(
    machine: str, accelerator: Accelerator, table: pl.DataFrame, kv: str, size: int, held: list[Held]
) -> list[float]:
    table = table.filter(
        (pl.col("isl") >= 128) & (pl.col("batch_size") * pl.col("isl") <= 32768) & (pl.col("num_heads") >= 4)
    )
    spans, heads, keys, tokens, measured = tables.columns(
        table, "batch_size", "num_heads", "num_key_value_heads", "isl", "latency"
    )
    rows, bandwidth = spans * tokens, accelerator.bandwidth
    design = np.stack(
        [
            np.ones_like(rows),
            spans,
            rows * heads * size * 4 / bandwidth,
            rows * keys * size * 4 / bandwidth,
            spans * tokens * (tokens + 1) / 2 * 4 * heads * size / accelerator.peak_flops,
        ],
        1,
    )
    test = (heads * 31 + keys * 17).astype(np.int64) % 3 == 0
    away = design @ affine(design[~test], measured[~test]) / measured - 1
    held.append(Held(machine, f"attention, head {size}", kv, "prefill", away[test]))
    return numbers(affine(design, measured))


def decode_attention(
    machine: str, accelerator: Accelerator, table: pl.DataFrame, kv: str, size: int, held: list[Held]
) -> list[float]:
    table = table.filter((pl.col("step") >= 127) & (pl.col("batch_size") <= 1024))
    spans, heads, keys, step, measured = tables.columns(
        table, "batch_size", "num_heads", "num_key_value_heads", "step", "latency"
    )
    cache = spans * (step + 1) * keys * size * 2 * (2 if kv == "bf16" else 1)
    read = cache / accelerator.bandwidth
    cached = (cache < 1.1 * L2_BYTES.get(machine, 0)) & (read > 0.5 * measured)
    cold = (measured > read / 0.97) & ~cached
    design = np.stack(
        [np.ones_like(spans), spans, spans * keys, read, read * np.log2(np.maximum(heads / keys, 1))], 1
    )
    test = (heads * 31 + keys * 17).astype(np.int64) % 3 == 0
    away = design @ affine(design[cold & ~test], measured[cold & ~test]) / measured - 1
    held.append(Held(machine, f"attention, head {size}", kv, "decode", away[cold & test]))
    return numbers(affine(design[cold], measured[cold]))


def numbers(values: Floats) -> list[float]:
    return [float(f"{each:.4g}") for each in values]


# -- latent attention, recurrences ---------------------------------------------------------------------------


def latent_curves(root: Path, machine: str, accelerator: Accelerator) -> dict[str, Any]:
    """From whole modules of DeepSeek-V3, projections and all: what grows with tokens and pairs is kept."""
    prompts = tables.kernel_table(root, machine, "mla", "mla_context_module")
    steps = tables.kernel_table(root, machine, "mla", "mla_generation_module")
    plain = prompts is None or steps is None
    if prompts is None or steps is None:
        prompts = tables.kernel_table(root, machine, "mla", "context_mla")
        steps = tables.kernel_table(root, machine, "mla", "generation_mla")
    assert prompts is not None and steps is not None
    found = {}
    for theirs, kv in (("bfloat16", "bf16"), ("fp8", "fp8")):
        one = prompts.filter((pl.col("kv_cache_dtype") == theirs) & (pl.col("isl") >= 1024))
        other = steps.filter((pl.col("kv_cache_dtype") == theirs) & (pl.col("step") >= 511))
        if not plain:
            one, other = (each.filter(pl.col("mla_dtype") == "bfloat16") for each in (one, other))
        if not len(one) or not len(other):
            continue
        heads, spans, tokens, measured = tables.columns(one, "num_heads", "batch_size", "isl", "latency")
        rows = spans * tokens
        pairs = spans * tokens * (tokens + 1) / 2 * 2 * heads * (128 + 64 + 128) / accelerator.peak_flops
        pair = affine(np.stack([np.ones_like(rows), heads, rows, rows * heads, pairs], 1), measured)[-1]
        heads, spans, step, measured = tables.columns(other, "num_heads", "batch_size", "step", "latency")
        read = spans * step * 576 * (2 if kv == "bf16" else 1) / accelerator.bandwidth
        flops = spans * step * 2 * heads * (2 * 512 + 64) / accelerator.peak_flops
        design = np.stack([np.ones_like(read), heads, spans, spans * heads, read, flops], 1)
        found[kv] = numbers(np.array([pair, *affine(design, measured)[-2:]]))
    return found


def recurrence_curve(
    root: Path, machine: str, accelerator: Accelerator, held: list[Held]
) -> list[float] | None:
    """Gated delta nets: the convolution and the delta rule of a layer, one after the other."""
    table = tables.kernel_table(root, machine, "linear_attention", "gdn")
    if table is None:
        return None
    keys = ["phase", "batch_size", "seq_len", "d_model", "num_k_heads", "num_v_heads"]
    rows = (
        pl.read_parquet(
            root
            / "kernels"
            / f"{tables.MACHINES[machine][0]}__linear_attention__vllm__0.24.0__gdn_perf.parquet"
        )
        .group_by([*keys, "kernel_source"])
        .agg(pl.col("latency").min() / 1e3)
        .group_by(keys)
        .agg(pl.col("latency").sum(), parts=pl.len())
        .filter(pl.col("parts") == 2)
        .sort(keys)
    )
    found: list[float] = []
    for phase in ("context", "generation"):
        spans, tokens, key_heads, heads, measured = tables.columns(
            rows.filter(pl.col("phase") == phase),
            *("batch_size", "seq_len", "num_k_heads", "num_v_heads", "latency"),
        )
        wide = 128 * (2 * key_heads + heads)
        state = 2 * (heads * 128 * 128 * 4 + wide * 3 * 2) * spans / accelerator.bandwidth
        moved = 4 * wide * spans * tokens / accelerator.bandwidth
        flops = spans * tokens * (6 * heads * 128 * 128 + 8 * wide) / accelerator.peak_flops
        every = [np.ones_like(spans), state, moved, flops]
        design = np.stack(every if phase == "context" else every[:2], 1)
        some = spans * tokens <= 65536
        test = (heads.astype(np.int64) // 2) % 3 == 0
        own = affine(design[some & ~test], measured[some & ~test])
        away = design @ own / measured - 1
        name = {"context": "prefill", "generation": "decode"}[phase]
        held.append(Held(machine, "gated delta net", "bf16", name, away[test & some]))
        found += numbers(affine(design[some], measured[some]))
    return found


# -- exchanges -----------------------------------------------------------------------------------------------


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


# -- machines that LLMServingSim profiled --------------------------------------------------------------------

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
    found = fitted("bf16", accelerator, work, measured, PROFILE_GRIDS, test, cold)
    away = found.pop("held")(work) / measured - 1
    for phase, rows in (("decode", m <= 256), ("prefill", m >= 512)):
        held.append(Held(machine, "gemm", "bf16", phase, away[test & rows & cold]))
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
    for name, design, part in (
        ("prompt", prompt, (spans == 0) & (new >= 64)),
        ("decode", decode, (new == 0) & (tokens >= 128) & cold),
    ):
        test = (table["model"] == "Qwen3-32B").to_numpy()
        test = test if test.any() else np.arange(len(new)) % 3 == 0
        own = affine(design[part & ~test], measured[part & ~test])
        away = design[part & test] @ own / measured[part & test] - 1
        phase = {"prompt": "prefill", "decode": "decode"}[name]
        held.append(Held(machine, "attention, head 128", "bf16", phase, away))
        found[name] = numbers(affine(design[part], measured[part]))
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
    found = fitted("bf16", accelerator, work, measured, EXPERT_GRIDS[2:3], test, every)
    away = found.pop("held")(work) / measured - 1
    for phase, part in (("decode", rows <= 256), ("prefill", rows >= 512)):
        held.append(Held(machine, "experts", "bf16", phase, away[test & part]))
    return found


def profiled_small(root: Path, machine: str, accelerator: Accelerator) -> list[float]:
    """Norms: launch, and the share of the bandwidth beyond it."""
    table = tables.profiles(root, machine, "dense").filter(pl.col("layer") == "layernorm")
    width = np.array([SHAPES[name][0] for name in table["model"]], np.float64)
    rows, measured = tables.columns(table, "tokens", "s")
    return norm_numbers(rows, width, measured, accelerator)


def norm_numbers(rows: Floats, width: Floats, measured: Floats, accelerator: Accelerator) -> list[float]:
    """Read and written are the row and the residual; much of that stays in the cache between kernels."""
    design = np.stack([np.ones_like(rows), rows * width * 8 / accelerator.bandwidth], 1)
    launch, slope = affine(design, measured)
    return numbers(np.array([launch, 1 / slope]))


# -- machines of which little was timed ----------------------------------------------------------------------


def little_known(root: Path, machine: str, held: list[Held]) -> dict[str, Any]:
    """Multiplies alone; whatever else is taken from the machine that `else` names."""
    accelerator = load_accelerator(machine)
    if machine == "tpu-v6e":
        kernel, table = "bf16", tables.old_profile(root, "TPU-v6e-1")
        source = "LLMServingSim (casys-kaist, MIT), Llama-3.1-8B"
    else:
        kernel, table = next((kernel, table) for name, kernel, table in others(root) if name == machine)
        source = {"h20": "alibaba/InferSim (Apache-2.0), DeepGEMM", "mi210": "LLMCompass (BSD-3)"}[machine]
    m, n, k, measured = tables.columns(table, "m", "n", "k", "s")
    weight = n * k * format_named(kernel).bits_per_weight / 8
    test = (n * 7919 + k * 104729 + m * (machine == "mi210")) // 32 % 3 == 0
    work = gemm_work(m, n, k, weight)
    possible = measured > weight / accelerator.bandwidth
    grids = () if machine == "mi210" else PROFILE_GRIDS
    own = fitted(TYPES[kernel], accelerator, work, measured, grids, test, possible)
    away = own.pop("held")(work) / measured - 1
    for phase, some in (("decode", m <= 256), ("prefill", m >= 512)):
        held.append(Held(machine, "gemm", kernel, phase, away[test & some & possible]))
    own["range"] = {"rows": [float(m.min()), float(m.max())]}
    gemm = {name: {**own, "kind": kind} for name, kind in TYPES.items() if name not in ("nvfp4", "mxfp4")}
    return {"source": source, "gemm": gemm, "else": "h100-sxm", "fast_link": True}


# -- all of it -----------------------------------------------------------------------------------------------

RELATIVES = {
    **dict.fromkeys(("h100-pcie", "h100-nvl", "h800"), "h100-sxm"),
    **dict.fromkeys(("gh200", "gh200-144gb"), "h200"),
    **dict.fromkeys(("b300", "gb200", "gb300"), "b200"),
    **dict.fromkeys(("rtx-pro-6000", "rtx-5090", "rtx-5080", "dgx-spark"), "rtx-pro-6000-server"),
    **dict.fromkeys(("l40", "l20", "l4", "rtx-6000-ada"), "l40s"),
    **dict.fromkeys(
        ("a100-80gb-pcie", "a100-40gb", "a100-40gb-pcie", "a800", "a40", "a30", "a10", "a10g"), "a100-80gb"
    ),
    "AMD": "mi210",
    "Google": "tpu-v6e",
    "NVIDIA": "a100-80gb",
    "other": "a100-80gb",
}


def small_kernels(root: Path, machine: str) -> list[float]:
    """Norms of the machine, or of its nearest that were timed apart."""
    if machine == "l40s":
        return profiled_small(root, "rtx-4090", load_accelerator("rtx-4090"))
    like = "a100-80gb" if machine == "a100-80gb" else "h100-sxm"
    rows, width, measured = tables.columns(tables.norm_table(root, like), "tokens", "width", "s")
    return norm_numbers(rows, width, measured, load_accelerator(like))


def machine_entry(root: Path, machine: str, held: list[Held]) -> dict[str, Any]:
    accelerator = load_accelerator(machine)
    found: dict[str, Any] = {
        "source": f"ai-dynamo/aiconfigurator (Apache-2.0), vLLM {tables.MACHINES[machine][1]}",
        "gemm": gemm_curves(root, machine, accelerator, held),
        "experts": expert_curves(root, machine, accelerator, held),
        "attention": attention_curves(root, machine, accelerator, held),
        "latent": latent_curves(root, machine, accelerator),
        "exchange": exchange_curves(root, machine, accelerator, held),
        "small": small_kernels(root, machine),
        "fast_link": machine != "l40s",
    }
    found["gemm"].setdefault("w4a16", found["gemm"]["bf16"])
    found["experts"].setdefault("w4a16", found["experts"].get("mxfp4", found["experts"]["bf16"]))
    found["recurrence"] = recurrence_curve(root, machine, accelerator, held)
    return found


def interval(held: list[Held], machine: str) -> list[float]:
    """Of four in five of its kernels: measured over estimated."""
    ratios = np.concatenate([1 / (1 + each.error) for each in held if each.machine == machine])
    low, high = np.quantile(ratios, [0.1, 0.9])
    return [round(float(low), 3), round(float(high), 3)]


def fit_all(root: Path, held: list[Held]) -> dict[str, Any]:
    machines: dict[str, Any] = {}
    for machine in tables.MACHINES:
        print(machine, file=sys.stderr)
        machines[machine] = machine_entry(root, machine, held)
        if machines[machine]["recurrence"] is None:
            machines[machine]["recurrence"] = machines["h100-sxm"]["recurrence"]
    for machine in tables.PROFILED:
        machines[machine] = {**profiled(root, machine, held), "else": "l40s"}
    for machine in ("h20", "mi210", "tpu-v6e"):
        machines[machine] = little_known(root, machine, held)
    for name, each in machines.items():
        each["interval"] = interval(held, name)
        if name in FLASH_2:
            each["mixed"] = MIXED
    return {
        "licence": "fitted by this project; the tables are Apache-2.0 and MIT, as each machine's source says",
        "slow_link": 65e9,
        "links": {"true": "h100-sxm", "false": "l40s"},
        "relatives": RELATIVES,
        "machines": machines,
    }


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
    from twophase.calibration.curves import curves_of, relative_of

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
    for machine, kernel, table in others(root):
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


def others(root: Path) -> list[tuple[str, str, pl.DataFrame]]:
    """Multiplies that InferSim (DeepGEMM) and LLMCompass timed."""
    found = []
    for machine in ("h20", "h800"):
        table = pl.read_csv(root / f"infersim/gemm__{machine}__data.csv")
        found.append((machine, "fp8-block", table.with_columns(s=pl.col("latency_us") / 1e6)))
    for machine, theirs in (("a100-80gb", "A100"), ("mi210", "MI210")):
        path = root / f"llmcompass/ae__figure5__ab__real_hardware__matmul_{theirs}.csv"
        cells = [line.split(",") for line in path.read_text().splitlines() if line.strip()]
        sizes = [[int(each) for each in line[:3]] for line in cells]
        seconds = [float(line[3].strip().removesuffix("ms")) / 1e3 for line in cells]
        frame = pl.DataFrame(sizes, schema=["m", "k", "n"], orient="row").with_columns(s=pl.Series(seconds))
        found.append((machine, "bf16", frame))
    return found


def row(name: str, curves: str, away: Floats) -> str:
    """With the bias: the median of estimated over measured, less one."""
    low, high = np.quantile(np.abs(away), [0.5, 0.9])
    return f"| {name} | {curves} | {len(away):,} | {low:.1%} | {high:.1%} | {np.median(away):+.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write curves.json anew")
    parser.add_argument("--docs", type=Path, help="put the tables between the marks of this page")
    asked = parser.parse_args()
    root = Path(os.environ["TWOPHASE_SHARED"]) / "data/measured"
    held: list[Held] = []
    found = fit_all(root, held)
    if asked.write:
        FILE.write_text(json.dumps(found, separators=(",", ":")).replace('"grids"', '\n"grids"') + "\n")
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
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.docs:
        page = asked.docs.read_text()
        start, end = "<!-- tables -->\n", "<!-- end of tables -->"
        before, after = page.split(start)[0], page.split(end)[1]
        asked.docs.write_text(f"{before}{start}{text}{end}{after}")


if __name__ == "__main__":
    main()
