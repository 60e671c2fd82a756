"""Steady predictions against floors, published measurements and limits."""

import math
from dataclasses import replace

import numpy as np
import pytest

from twophase.calibration.floors import floor_times
from twophase.calibration.served_device import device_of, stacked
from twophase.calibration.served_times import (
    engine_times,
    logits_s,
    mixed_s,
    mixers_of,
    rows_s,
    served_times,
    shares,
)
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.errors import InputError
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.model.quantization import uniform
from twophase.simulate.steady import PromptPool, held_sequences, predict_steady

H100 = load_accelerator("h100-sxm")
LLAMA = Deployment(load_model("llama-3.1-8b").spec)
SPARSE = Deployment(load_model("gpt-oss-120b").spec, load_model("gpt-oss-120b").storage, plan=Plan(2))


@pytest.mark.parametrize("own", [LLAMA, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_no_pass_is_faster_than_its_floor(own: Deployment, engine: str) -> None:
    served, floor = served_times(own, H100, engine, 4096, 256), floor_times(own, H100, 4096, 256)
    for name in ("rows_s", "decode_rows_s", "logits_s", "mixers"):
        assert np.all(getattr(served, name) >= getattr(floor, name)), name
    assert np.all(np.diff(served.rows_s) >= -1e-12)


def test_published_points_of_a_small_model() -> None:
    """Llama 3.1 8B, bf16, one H100, TensorRT-LLM 1.0.0rc3 (aiconfigurator's silicon sample, Apache-2.0)."""
    for prompt, output, clients, tpot_ms in (
        (1024, 128, 8, 7.9),
        (2048, 512, 64, 18.7),
        (4096, 512, 64, 30.1),
    ):
        found = predict_steady(LLAMA, H100, "trtllm", prompt, output, clients, in_step=True)
        assert found.tpot_s * 1e3 == pytest.approx(tpot_ms, rel=0.2)
        assert found.tpot_range_s[0] < found.tpot_s < found.tpot_range_s[1]


def test_a_request_alone_takes_its_prompt_and_its_passes() -> None:
    found = predict_steady(LLAMA, H100, "vllm", 1000, 200, 1, provenance="floor")
    times = floor_times(LLAMA, H100, 1100, 2)
    assert found.tpot_s >= times.decode_rows_s[1]
    assert found.requests_per_s == pytest.approx(1 / (found.ttft_s + 199 * found.tpot_s))
    assert found.batch <= 1


def test_more_clients_are_served_faster_until_memory_is_full() -> None:
    found = [predict_steady(LLAMA, H100, "vllm", 2000, 500, clients) for clients in (1, 8, 64, 512, 4096)]
    rates = [each.requests_per_s for each in found]
    assert rates == sorted(rates)
    assert rates[-1] < 1.5 * rates[-2]
    held = held_sequences(LLAMA, H100, 2000 + 0.75 * 500)
    assert found[-1].batch == pytest.approx(held, rel=1e-6)
    assert found[-1].memory_wait_s > 0.5 * found[-1].ttft_s
    assert found[0].memory_wait_s == 0


def test_replicas_share_the_clients() -> None:
    one = predict_steady(LLAMA, H100, "vllm", 2000, 500, 32)
    four = predict_steady(LLAMA, H100, "vllm", 2000, 500, 128, workers=4)
    assert four.tpot_s == pytest.approx(one.tpot_s)
    assert four.requests_per_s == pytest.approx(4 * one.requests_per_s)


def test_rare_looks_for_requests_cost_the_first_token_passes() -> None:
    often, rarely = (predict_steady(LLAMA, H100, "sglang", 2000, 500, 8, looks=looks) for looks in (1, 31))
    waited = (rarely.ttft_s - often.ttft_s) / often.pass_s
    # 15 if a request falls anywhere between two looks that are 30 passes further apart
    assert waited == pytest.approx(15, rel=0.1)
    assert rarely.tpot_s == pytest.approx(often.tpot_s, rel=0.05)


def test_pools_spare_decodes_the_prompts() -> None:
    together = predict_steady(LLAMA, H100, "vllm", 8000, 200, 32)
    apart = predict_steady(LLAMA, H100, "vllm", 8000, 200, 32, prompts=PromptPool(LLAMA, 4))
    assert apart.tpot_s < together.tpot_s
    few = predict_steady(LLAMA, H100, "vllm", 8000, 200, 32, prompts=PromptPool(LLAMA, 1))
    assert few.ttft_s > apart.ttft_s


def test_what_does_not_fit_is_said() -> None:
    large = replace(LLAMA, spec=load_model("llama-3.1-70b").spec)
    with pytest.raises(InputError, match="GB of weights on each device"):
        predict_steady(large, H100, "vllm", 100, 100, 1)
    with pytest.raises(InputError, match="concurrency 0"):
        predict_steady(LLAMA, H100, "vllm", 100, 100, 0)
    with pytest.raises(InputError, match=r"prompt nan"):
        predict_steady(LLAMA, H100, "vllm", math.nan, 100, 1)
    with pytest.raises(InputError, match="no engine is called 'vlm'"):
        predict_steady(LLAMA, H100, "vlm", 100, 100, 1)
    with pytest.raises(InputError, match=r"looks 0: it must be a number from 1 on"):
        predict_steady(LLAMA, H100, "sglang", 100, 100, 1, looks=0)


def test_many_devices_at_once_are_each_alone() -> None:
    """What a fit evaluates together is what each deployment gets by itself."""
    quantised = replace(LLAMA, storage=uniform("fp8"), kv_bytes=1.0, plan=Plan(2))
    devices = [device_of(own, H100) for own in (LLAMA, SPARSE, quantised)]
    together, known, host = stacked(devices), shares(), engine_times("vllm")
    counts = np.array([7.0, 300.0, 5000.0])
    for of in (rows_s, mixed_s, logits_s):
        alone = [
            of(each, known, host, np.asarray(count)) for each, count in zip(devices, counts, strict=True)
        ]
        assert of(together, known, host, counts) == pytest.approx(np.array(alone))
    kinds = mixers_of(together, known)
    assert kinds[0, 0] == pytest.approx(mixers_of(devices[0], known)[0])
    assert kinds[1, :2] == pytest.approx(mixers_of(devices[1], known)[:2])
