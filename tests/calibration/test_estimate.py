"""Estimates of passes: possible, in order, and near layers that were measured whole."""

import os
from pathlib import Path

import numpy as np
import pytest

from twophase.calibration.curve_times import rows_s
from twophase.calibration.curves import curves_of
from twophase.calibration.estimate import Provenance, best_of, estimate, pass_times
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.cost.pass_seconds import floor_seconds, pass_cost
from twophase.errors import InputError
from twophase.hardware.catalogue import accelerators, load_accelerator
from twophase.model.catalogue import load_model
from twophase.model.served import served

PASSES = ([(1, 1000)], [(1, 30), (1, 9000)], [(1, 500)] * 64, [(2000, 0)], [(300, 1700), (1, 40)])
SHARED = os.environ.get("TWOPHASE_SHARED")


@pytest.mark.parametrize("gpu", list(accelerators()))
@pytest.mark.parametrize(
    ("name", "weights", "plan"),
    [
        ("llama-3-8b", None, Plan()),
        ("llama-3-8b", "int4", Plan(tp=2)),
        ("llama-3-8b", "fp8", Plan(pp=2)),
        ("deepseek-v3", None, Plan(tp=4, dp=2, ep=8)),
        ("gpt-oss-120b", None, Plan(tp=2)),
        ("qwen3-next-80b-a3b", None, Plan()),
    ],
    ids=str,
)
def test_no_pass_beats_its_floor_on_any_accelerator(
    gpu: str, name: str, weights: str | None, plan: Plan
) -> None:
    model = served(load_model(name), weights)
    own = Deployment(model.spec, model.storage, plan=plan)
    times = pass_times(own, load_accelerator(gpu), max_rows=2304, max_sequences=64)
    for spans in PASSES:
        new, context = np.array(spans).T
        seconds, flops, bytes_ = pass_cost(times, new, context, len(spans))
        assert np.isfinite(seconds)
        assert seconds >= floor_seconds(times, flops, bytes_)


def test_decodes_are_padded_to_captured_graphs() -> None:
    own = Deployment(load_model("llama-3-8b").spec)
    times = pass_times(own, load_accelerator("h100-sxm"), max_rows=600, max_sequences=8)
    assert times.decode_rows_s[9] == times.decode_rows_s[16] > times.decode_rows_s[8]
    assert times.decode_rows_s[0] == times.rows_s[0] == 0
    alone = pass_times(own, load_accelerator("h100-sxm"), "none", max_rows=600, max_sequences=8)
    assert alone.decode_rows_s[16] < times.decode_rows_s[16]


def test_fewer_bits_are_read_faster_but_not_in_proportion() -> None:
    h200, model = load_accelerator("h200"), load_model("llama-3-8b")
    bf16, fp8 = (
        rows_s(
            Deployment(model.spec, served(model, weights).storage), h200, curves_of(h200), np.array([1.0])
        )[0]
        for weights in ("bf16", "fp8")
    )
    assert bf16 / 2 < fp8 < bf16


def test_provenance_goes_with_the_figures() -> None:
    own = Deployment(load_model("llama-3-8b").spec)
    made = {
        kind: estimate(own, load_accelerator("h100-sxm"), max_rows=64, max_sequences=8, provenance=kind)
        for kind in ("floor", "curves", "served")
    }
    assert made["floor"].provenance == "floor" and made["floor"].interval[0] == 1
    assert made["curves"].interval[0] < 1 < made["curves"].interval[1]
    assert "aiconfigurator" in made["curves"].source
    assert made["served"].interval[0] < 1 < made["served"].interval[1]
    assert made["served"].times.decode_rows_s[1] > made["floor"].times.decode_rows_s[1]
    with pytest.raises(InputError, match="twophase calibrate"):
        estimate(own, load_accelerator("h100-sxm"), provenance="calibrated")
    with pytest.raises(InputError, match="vllm"):
        estimate(own, load_accelerator("h100-sxm"), "vlm")


@pytest.mark.parametrize("kind", ["curves", "served"])
def test_engines_are_known_however_they_are_spelled(kind: Provenance) -> None:
    own, h100 = Deployment(load_model("llama-3-8b").spec), load_accelerator("h100-sxm")
    short, long = (
        pass_times(own, h100, name, max_rows=8, max_sequences=8, provenance=kind)
        for name in ("trtllm", "TensorRT-LLM")
    )
    np.testing.assert_array_equal(short.decode_rows_s, long.decode_rows_s)


def test_served_times_are_taken_where_they_were_fitted() -> None:
    own = Deployment(load_model("llama-3-8b").spec)
    for gpu, engine, best in (
        ("h100-sxm", "vllm", "served"),
        ("b200", "TensorRT-LLM", "served"),
        ("h100-sxm", "none", "curves"),
        ("rtx-4090", "vllm", "curves"),
    ):
        assert best_of(load_accelerator(gpu), engine) == best
    best_there = estimate(own, load_accelerator("h100-sxm"), max_rows=8, max_sequences=8, provenance=None)
    assert best_there.provenance == "served" and not best_there.extrapolated
    elsewhere = estimate(own, load_accelerator("rtx-4090"), max_rows=8, max_sequences=8, provenance="served")
    assert elsewhere.extrapolated
    assert elsewhere.interval[0] < best_there.interval[0] and elsewhere.interval[1] > best_there.interval[1]


@pytest.mark.skipif(SHARED is None, reason="measured data lies elsewhere")
@pytest.mark.parametrize(("tp", "tolerance"), [(1, 0.1), (2, 0.1)])
def test_a_profiled_layer_of_qwen3_32b(tp: int, tolerance: float) -> None:
    """LLMServingSim timed each kernel of a layer; attention apart, they sum up to what rows cost."""
    import polars as pl

    assert SHARED is not None
    at = Path(SHARED) / "data/measured/llmservingsim/profiler/perf/RTXPRO6000/Qwen/Qwen3-32B/bf16"
    table = pl.read_csv(at / f"tp{tp}" / "dense.csv")
    times = {"layernorm": 2}  # before attention and before the MLP
    layer = (
        table.filter(~pl.col("layer").is_in(["embedding", "final_layernorm"]))
        .with_columns(pl.col("time_us") * pl.col("layer").replace_strict(times, default=1))
        .group_by("tokens")
        .agg(pl.col("time_us").sum() / 1e6)
        .sort("tokens")
    )
    tokens = layer["tokens"].to_numpy().astype(np.float64)
    gpu = load_accelerator("rtx-pro-6000-server")
    whole = Deployment(load_model("qwen3-32b").spec, plan=Plan(tp=tp))
    alone = rows_s(whole, gpu, curves_of(gpu), tokens)
    if tp > 1:  # the profile has no exchanges
        from twophase.calibration.exchanging import exchanges_s

        alone = alone - exchanges_s(whole, gpu, curves_of(gpu), tokens)
    away = np.abs(alone / 64 / layer["time_us"].to_numpy() - 1)
    assert np.median(away) < tolerance
    assert np.quantile(away, 0.9) < 2 * tolerance
