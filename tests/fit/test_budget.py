"""From memory to the pool: what fits, what does not, and what would make it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from fit_cases import GIB, model_of, rows

from twophase.cost.parallel import Plan
from twophase.errors import InputError
from twophase.fit.fit import Fit, fit
from twophase.fit.reserves import reserves_of, version_numbers
from twophase.fit.serving import Serving
from twophase.fit.smallest_change import Change, smallest_changes
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import Model, load_model
from twophase.model.quantization import uniform
from twophase.model.served import served
from twophase.model.vision import Vision

H100 = replace(load_accelerator("h100-sxm"), memory_bytes=79.18 * GIB)  # as in the logs of vLLM 0.11
ROWS = rows()
LLAMA_70B_FP8 = model_of(ROWS["FIT-22"])
QWEN3_32B = load_model("qwen3-32b")


def on_h100(model: Model, **asked: object) -> Fit:
    return fit(model, H100, Serving(**asked))  # type: ignore[arg-type]


def changes(model: Model, **asked: object) -> dict[str, Change]:
    serving = Serving(**asked)  # type: ignore[arg-type]
    found = smallest_changes(model, H100, serving, fit(model, H100, serving))
    return {each.flags: each for each in found}


def test_no_room_on_one_device_and_room_on_two() -> None:
    """Llama 3.3 70B in FP8: -1.44 GiB on one H100; at TP2 32.0 GiB in the log."""
    asked = {"version": "0.11", "max_model_len": 16_000}
    assert on_h100(LLAMA_70B_FP8, **asked).kv_pool_bytes / GIB == pytest.approx(-1.44, abs=0.05)
    found = changes(LLAMA_70B_FP8, **asked)
    assert found["--tp 2"].fit.kv_pool_bytes / GIB == pytest.approx(32.0, rel=0.01)


def test_starts_at_16k_and_not_at_32k() -> None:
    """Qwen3-32B: a pool of 4.45 GiB holds 18,227 tokens; 32,000 need 7.81 GiB."""
    asked = {"version": "0.11", "weights_bytes": 61.03 * GIB, "activation_bytes": 5.64 * GIB}
    asked["non_torch_bytes"] = 0.14 * GIB
    short = on_h100(QWEN3_32B, max_model_len=16_000, **asked)
    assert short.fits
    assert short.capacity.concurrency == pytest.approx(1.13, abs=0.01)
    long = on_h100(QWEN3_32B, max_model_len=32_000, **asked)
    assert not long.fits
    assert long.sequence_bytes / GIB == pytest.approx(7.81, abs=0.005)
    assert long.capacity.longest == pytest.approx(18_227, abs=100)
    assert f"--max-model-len {long.capacity.longest}" in changes(QWEN3_32B, max_model_len=32_000, **asked)


def test_a_planner_without_activations_said_yes() -> None:
    """llm-d-benchmark#621: 75.2 - 67.72 - 4.84 - 0.14 is 2.5 GiB, and 16,000 tokens need 4.88."""
    found = on_h100(LLAMA_70B_FP8, version="0.11", utilization=0.95, max_model_len=16_000)
    assert not found.fits
    assert found.kv_pool_bytes / GIB == pytest.approx(2.5, abs=0.1)
    assert found.sequence_bytes / GIB == pytest.approx(4.88, abs=0.01)


def test_what_only_the_newest_version_holds_is_not_sure_to_fit() -> None:
    """llm-d/llm-d-benchmark#621 failed to start; no version is asked for, and one in use needs more."""
    asked = {"utilization": 0.95, "max_model_len": 16_000}
    unsure, newest = on_h100(LLAMA_70B_FP8, **asked), on_h100(LLAMA_70B_FP8, version="0.19", **asked)
    assert (unsure.fits, newest.fits) == (False, True)
    assert unsure.kv_pool_bytes == newest.kv_pool_bytes
    assert unsure.short_bytes == on_h100(LLAMA_70B_FP8, version="0.16", **asked).short_bytes > 0
    flags = changes(LLAMA_70B_FP8, **asked)
    assert "--engine-version 0.17" in flags and "--tp 2" in flags


def test_two_versions_of_one_engine() -> None:
    """Qwen3-14B at 8,192: 33.55x until 0.16, 36.27x since 0.17."""
    asked = {"utilization": 0.95, "max_model_len": 8192}
    model = load_model("qwen3-14b")
    for version, said in (("0.16.0", 33.55), ("0.17", 36.27)):
        held = on_h100(model, version=version, **asked).capacity.concurrency
        assert held == pytest.approx(said, rel=0.01)


def test_tensor_parallelism_brings_buffers() -> None:
    model = load_model("llama-3.1-8b")
    for plan, said in ((Plan(), 0.25), (Plan(tp=2), 2.07), (Plan(tp=4), 2.13), (Plan(pp=2), 0.07)):
        found = on_h100(model, version="0.19", plan=plan)
        assert found.non_torch.bytes / GIB == pytest.approx(said, abs=0.05)


def test_what_a_share_is_of() -> None:
    """vLLM's of all memory; TensorRT-LLM's of what is free after loading; SGLang's holds the weights."""
    model = load_model("llama-3.1-8b")
    given = {"weights_bytes": 15.0 * GIB, "activation_bytes": 2.0 * GIB, "non_torch_bytes": 1.0 * GIB}
    memory = H100.memory_bytes / GIB

    def pool(engine: str, **more: float) -> float:
        return on_h100(model, engine=engine, utilization=0.8, **given, **more).kv_pool_bytes / GIB

    assert pool("vllm") == pytest.approx(0.8 * memory - 18)
    assert pool("trtllm") == pytest.approx(0.8 * (memory - 18))
    assert pool("sglang") == pytest.approx(0.8 * (memory - 1) - 15 - 2)
    plain = on_h100(model, engine="plain", weights_bytes=15.0 * GIB)
    assert plain.kv_pool_bytes / GIB == pytest.approx(memory - 15)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "plain"])
def test_usable_is_weights_reserve_and_pool(engine: str) -> None:
    found = on_h100(load_model("gemma-3-27b"), engine=engine)
    assert found.usable_bytes == pytest.approx(
        found.weights.bytes + found.reserve_bytes + found.kv_pool_bytes
    )


def test_hundreds_of_billions_on_one_device_are_told_so() -> None:
    """aiconfigurator#509: Llama 3.1 405B on one H100 is no answer of some seconds."""
    found = changes(load_model("llama-3.1-405b"))
    assert found
    assert all(each.fit.fits and each.fit.serving.plan.devices >= 8 for each in found.values())
    assert "--weights fp8 --tp 8" in found


def test_every_change_is_one_that_fits() -> None:
    found = changes(QWEN3_32B, version="0.11", max_model_len=32_000)
    kinds = {" ".join(flags.split()[::2]) for flags in found}
    assert kinds == {"--gpu-memory-utilization", "--max-model-len", "--kv", "--weights", "--tp"}
    assert all(each.fit.fits for each in found.values())
    length = int(next(flags for flags in found if "len" in flags).split()[1])
    assert not on_h100(QWEN3_32B, version="0.11", max_model_len=length + 16).fits
    share = float(next(flags for flags in found if "utilization" in flags).split()[1])
    asked = {"version": "0.11", "max_model_len": 32_000}
    assert not on_h100(QWEN3_32B, utilization=round(share - 0.01, 2), **asked).fits


def test_shorter_where_the_profile_grows_with_the_length() -> None:
    """vLLM 0.6 on a 24 GB card: the reserve of a shorter length is smaller, too."""
    model, card = load_model("llama-3.1-8b"), load_accelerator("rtx-3090")
    serving = Serving(version="0.6", max_model_len=29_000)
    found = smallest_changes(model, card, serving, fit(model, card, serving))
    length = int(next(each.flags for each in found if "len" in each.flags).split()[1])
    assert 20_000 < length < 29_000  # 20,000 ran with 1.56x (vllm#10517)
    assert not fit(model, card, replace(serving, max_model_len=length + 16)).fits


def test_experts_are_dealt_out() -> None:
    """aiconfigurator#1390: all weights of an expert layer are divided, by TP and by EP."""
    model = model_of(ROWS["FIT-53"])  # Qwen3 30B-A3B: 29.09 GiB in FP8 on one device
    whole = on_h100(model).weights.bytes
    assert whole / GIB == pytest.approx(29.09, rel=0.02)
    for plan in (Plan(tp=4), Plan(tp=4, ep=4)):
        assert on_h100(model, plan=plan).weights.bytes == pytest.approx(whole / 4, rel=0.02)


def test_a_tower_stands_on_the_first_device() -> None:
    seeing = replace(QWEN3_32B, vision=Vision("tower", 10**9, 32, 1280))
    more = on_h100(seeing).weights.bytes - on_h100(QWEN3_32B).weights.bytes
    assert more == 2e9
    unknown = replace(QWEN3_32B, vision=Vision("tower", None, None, None))
    assert "not counted" in on_h100(unknown).weights.note


def test_the_stage_that_binds_is_shown() -> None:
    """80 layers over three stages: vLLM gives the stages before the last one layer more."""
    found = on_h100(load_model("llama-3.1-70b"), plan=Plan(tp=2, pp=3))
    assert found.layout.kinds[0][1] == 27
    assert found.stage in (0, 1)


def test_a_pool_beside_the_weights_must_be_there() -> None:
    model = load_model("llama-3.1-8b")
    assert on_h100(model, kv_pool_bytes=60.0 * GIB, max_model_len=8192).fits
    found = on_h100(model, kv_pool_bytes=70.0 * GIB, max_model_len=8192)
    assert not found.fits
    assert found.short_bytes / GIB == pytest.approx(70 + 14.96 - 79.18, abs=0.01)


def test_float32_is_served_in_16_bits_unless_asked_for() -> None:
    model = replace(QWEN3_32B, storage=uniform("float32"))
    assert served(model, None).storage.name == "bf16"
    assert served(model, "float32").storage.name == "float32"
    weights = on_h100(served(load_model("llama-3.1-8b"), "float32")).weights.bytes
    assert weights / GIB == pytest.approx(29.98, rel=0.003)


def test_versions() -> None:
    assert version_numbers("v0.10.1rc2") == (0, 10, 1)
    assert reserves_of("vllm", "0.16.9").since == "0.10"
    assert reserves_of("vllm", "0.8.5").since == "0.8"
    assert reserves_of("vllm").since == reserves_of("vllm", "9.0").since
    with pytest.raises(InputError, match="--engine-version newest"):
        reserves_of("vllm", "newest")


def test_the_pool_bounds_the_batch() -> None:
    """aiconfigurator#1396: 0.92 of a B200's 179 GiB less 152 GiB of weights has no room for 96 sequences."""
    kimi = model_of(ROWS["FIT-43"])  # DeepSeek V3's layers and latent dimensions
    pool = (0.92 * 179 - 152) * GIB
    found = fit(kimi, load_accelerator("b200"), Serving(kv_pool_bytes=pool, weights_bytes=152.0 * GIB))
    assert 0 < found.sequences(8192 + 1024) <= 35


def test_only_a_quarter_of_a_hybrids_layers_grow() -> None:
    """lmstudio#1862: Qwen3.6 27B at 262,144 tokens has 16,384 MiB of keys and values, and states beside."""
    hybrid = model_of(ROWS["FIT-71"])
    found = on_h100(hybrid, engine="plain", max_model_len=262_144)
    state = 48 * (48 * 128 * 128 * 4 + (2 * 16 + 48) * 128 * 3 * 2)
    assert found.sequence_bytes == 16_384 * 2**20 + state


@pytest.mark.skipif("TWOPHASE_SHARED" not in os.environ, reason="needs published configs")
def test_eight_layers_of_eighty_eight_have_a_cache() -> None:
    """aisimulate#176: Nemotron 3 Super keeps keys and values in 8 of its 88 layers, Mamba states in 40."""
    configs = Path(os.environ["TWOPHASE_SHARED"]) / "data" / "configs"
    model = load_model(str(configs / "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4.json"))
    found = on_h100(model, engine="plain")
    counts = {cache.kind: count for cache, count in found.layout.kinds}
    assert (counts["full"], counts["state"]) == (8, 40)
