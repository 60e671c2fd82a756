"""Affine times of attention, latent attention and recurrences, of aiconfigurator's tables."""

from pathlib import Path
from typing import Any

import kernel_tables as tables
import numpy as np
import polars as pl
from kernel_entries import Held, numbers
from kernel_waves import waves, waves_s

from twophase.calibration.least_squares import affine
from twophase.hardware.accelerator import Accelerator

L2_BYTES = {"l40s": 96 << 20}  # where a benchmark's few megabytes never leave the cache, a pass's do


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
    own = waves(design[~test], (rows * heads)[~test], measured[~test])
    away = waves_s(design, rows * heads, own) / measured - 1
    held.append(Held(machine, f"attention, head {size}", kv, "prefill", away[test]))
    return numbers(waves(design, rows * heads, measured))


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
    rows = tables.delta_net_table(root, machine)
    if rows is None:
        return None
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
