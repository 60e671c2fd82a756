"""Tables of measured kernels as arrays: whatever the set, seconds, elements and plain names."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Table = Mapping[str, NDArray]  # type: ignore[type-arg]

# Set's name of a machine, ours, and the release of vLLM whose kernels were timed
MACHINES = {
    "h100-sxm": ("h100_sxm", "0.24.0"),
    "h200": ("h200_sxm", "0.24.0"),
    "b200": ("b200_sxm", "0.24.0"),
    "a100-80gb": ("a100_sxm", "0.14.0"),
    "l40s": ("l40s", "0.24.0"),
}
PROFILED = {"rtx-4090": "RTX4090", "rtx-pro-6000-server": "RTXPRO6000"}
KERNELS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8-block",
    "nvfp4": "nvfp4",
    "int4_wo": "w4a16",
    "w4a16_mxfp4": "mxfp4",
}


def kernel_table(root: Path, machine: str, family: str, name: str) -> pl.DataFrame | None:
    """A table of ai-dynamo/aiconfigurator, the fastest of each shape's rows; latency in seconds."""
    table = raw_table(root, machine, family, name)
    return None if table is None else fastest(table.with_columns(pl.col("latency") / 1e3))


def raw_table(root: Path, machine: str, family: str, name: str) -> pl.DataFrame | None:
    theirs, release = MACHINES[machine]
    path = root / "kernels" / f"{theirs}__{family}__vllm__{release}__{name}_perf.parquet"
    return pl.read_parquet(path) if path.exists() else None


def fastest(table: pl.DataFrame) -> pl.DataFrame:
    aside = {"framework", "version", "device", "op_name", "kernel_source", "latency"}
    keys = [name for name in table.columns if name not in aside]
    return table.sort("latency").group_by(keys).agg(pl.col("latency", "kernel_source").first()).sort(keys)


def delta_net_table(root: Path, machine: str) -> pl.DataFrame | None:
    """Gated delta nets' shapes of which both kernels were timed: seconds of one after the other."""
    table = raw_table(root, machine, "linear_attention", "gdn")
    if table is None:
        return None
    keys = ["phase", "batch_size", "seq_len", "d_model", "num_k_heads", "num_v_heads"]
    return (
        table.group_by([*keys, "kernel_source"])
        .agg(pl.col("latency").min() / 1e3)
        .group_by(keys)
        .agg(pl.col("latency").sum(), parts=pl.len())
        .filter(pl.col("parts") == 2)
        .sort(keys)
    )


def nccl(root: Path, machine: str, operation: str) -> pl.DataFrame:
    theirs = MACHINES[machine][0]
    path = sorted((root / "kernels").glob(f"{theirs}__comm__nccl__*_nccl_perf.parquet"))[-1]
    table = pl.read_parquet(path).filter((pl.col("op_name") == operation) & (pl.col("nccl_dtype") == "half"))
    return _exchanges(table)


def custom_all_reduce(root: Path, machine: str) -> pl.DataFrame | None:
    theirs, release = MACHINES[machine]
    path = root / "kernels" / f"{theirs}__comm__vllm__{release}__custom_allreduce_perf.parquet"
    if not path.exists():
        return None
    return _exchanges(pl.read_parquet(path).filter(pl.col("backend") == "vllm_graph"))


def _exchanges(table: pl.DataFrame) -> pl.DataFrame:
    """message_size counts elements of two bytes."""
    return (
        table.group_by("num_gpus", "message_size")
        .agg(pl.col("latency").min() / 1e3)
        .with_columns(payload=pl.col("message_size") * 2.0)
        .sort("num_gpus", "payload")
    )


def profiles(root: Path, machine: str, name: str) -> pl.DataFrame:
    """A table of LLMServingSim's profiler, all models and degrees of TP; seconds."""
    found = []
    for path in sorted((root / "llmservingsim/profiler/perf" / PROFILED[machine]).rglob(f"{name}.csv")):
        table = pl.read_csv(path, infer_schema_length=None).with_columns(
            model=pl.lit(path.parents[2].name), tp=pl.lit(int(path.parent.name[2:]))
        )
        found.append(table.with_columns(pl.col("time_us").cast(pl.Float64) / 1e6).rename({"time_us": "s"}))
    return pl.concat(found) if found else pl.DataFrame()


def old_profile(root: Path, name: str) -> pl.DataFrame:
    """LLMServingSim's earlier profile of Llama-3.1-8B: m, n, k, seconds of its multiplies."""
    path = root / "llmservingsim/profiler/v0/perf_models" / name / "meta-llama/Llama-3.1-8B/tp1/layers.csv"
    shapes = {
        "q_proj": (4096, 4096),
        "k_proj": (1024, 4096),
        "v_proj": (1024, 4096),
        "o_proj": (4096, 4096),
        "gate_proj": (14336, 4096),
        "up_proj": (14336, 4096),
        "down_proj": (4096, 14336),
        "lm_head": (128256, 4096),
    }
    table = pl.read_csv(path).filter(pl.col("layer_name").is_in(list(shapes)))
    return table.select(
        m="input",
        n=pl.col("layer_name").replace_strict({name: n for name, (n, _) in shapes.items()}),
        k=pl.col("layer_name").replace_strict({name: k for name, (_, k) in shapes.items()}),
        s=pl.col("latency(ns)") / 1e9,
    ).filter(pl.col("s") > 0)


def layer_tables(root: Path, machine: str) -> pl.DataFrame:
    """Vidur's four multiplies of a layer: tokens, n, k, seconds."""
    theirs = {"a100-80gb": "a100", "h100-sxm": "h100"}[machine]
    found = []
    for path in sorted((root / "vidur/compute" / theirs).rglob("mlp.csv")):
        table = pl.read_csv(path)
        tp, width, ffn = (
            pl.col(name) for name in ("num_tensor_parallel_workers", "n_embd", "n_expanded_embd")
        )
        head = width // pl.col("n_head")
        shapes = {
            "attn_pre_proj": ((pl.col("n_head") + 2 * pl.col("n_kv_head")) * head // tp, width),
            "attn_post_proj": (width, width // tp),
            "mlp_up_proj": (2 * ffn // tp, width),
            "mlp_down_proj": (width, ffn // tp),
        }
        for name, (n, k) in shapes.items():
            found.append(
                table.select(
                    model=pl.lit(path.parent.name),
                    tp=tp,
                    tokens=pl.col("num_tokens"),
                    n=n,
                    k=k,
                    s=pl.col(f"time_stats.{name}.median") / 1e3,
                )
            )
    return pl.concat(found).drop_nulls()


def norm_table(root: Path, machine: str) -> pl.DataFrame:
    """Vidur's norms before attention: tokens, width, seconds."""
    theirs = {"a100-80gb": "a100", "h100-sxm": "h100"}[machine]
    found = [
        pl.read_csv(path).select(
            tokens=pl.col("num_tokens"),
            width=pl.col("n_embd"),
            s=pl.col("time_stats.input_layernorm.median") / 1e3,
        )
        for path in sorted((root / "vidur/compute" / theirs).rglob("mlp.csv"))
    ]
    return pl.concat(found).drop_nulls().filter(pl.col("s") > 0)


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


def columns(table: pl.DataFrame, *names: str) -> list[Floats]:
    return [table[name].cast(pl.Float64).to_numpy() for name in names]
