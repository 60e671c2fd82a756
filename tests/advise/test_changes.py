"""Levers that can't be pulled say why; the others change what they say, and nothing else."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from twophase.advise.changes import CHANGES, Change, Now, RefusedError, twin_of
from twophase.advise.known import REACHABLE
from twophase.advise.load import Load, crowd
from twophase.advise.machines import with_more
from twophase.advise.setup import Kernels, Setup, pools_of, reached
from twophase.calibration.estimate import pass_times
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import ALONE, Plan
from twophase.cost.pass_seconds import pass_cost
from twophase.cost.pass_times import PassTimes
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.model.served import served
from twophase.scheduler.request import Limits
from twophase.simulate.presets import PRESETS
from twophase.workload.lengths import Lengths

LOAD = Load(Lengths("fixed", 2000), Lengths("fixed", 200), rate=1.0)
LIMITS = Limits(blocks=1000, context_length=2200, max_sequences=256, max_tokens=8192)


def standing(gpu: str = "h100-sxm", weights: str | None = None, **more: Any) -> Now:
    setup = Setup(
        model=served(load_model("llama-3.1-8b"), weights),
        accelerator=load_accelerator(gpu),
        preset=PRESETS["vllm"],
        policy="decode-first",
    )
    setup = replace(setup, **{name: value for name, value in more.items() if hasattr(setup, name)})
    point: Any = SimpleNamespace(prefill_share=more.get("prefill_share", 0.5), most_at_once=6)
    pool: Any = SimpleNamespace(limits=LIMITS, count=1, replicas=1, max_sequences=LIMITS.max_sequences)
    load = more.get("load", LOAD)
    return Now(setup, load, pool, point, more.get("seats", 256), shared=0.5, acceptance=0.7)


@pytest.mark.parametrize(
    ("lever", "now", "said"),
    [
        ("int8-weights", standing(weights="fp8"), "fp8 already"),
        ("int4-weights", standing(weights="int4"), "int4 already"),
        ("fp8", standing(weights="fp8"), "already"),
        ("fp8", standing(weights="int4"), "in fewer bits"),
        ("fp8-arithmetic", standing("a100"), "no FP8 arithmetic"),
        ("fp8-arithmetic", standing(weights="fp8"), "8 bits or fewer already"),
        ("kv-fp8", standing(kv="fp8"), "already"),
        ("kv-int8", standing(kv="fp8"), "already"),
        ("speculation", standing(drafts=2), "2 drafts"),
        ("prefix-cache", standing(load=replace(LOAD, shared=0.3)), "on already"),
        ("prefix-cache", standing(load=replace(LOAD, prompt=Lengths("fixed", 20))), "no whole block"),
        ("larger-batch", standing(seats=20), "holds 20 sequences"),
        ("larger-batch", standing(seats=8, load=replace(LOAD, rate=None, clients=8)), "8 sequences"),
        ("smaller-batch", standing(load=replace(LOAD, rate=None, clients=1)), "one request"),
        ("decode-first", standing(), "already"),
        ("prefill-first", standing(policy="prefill-first"), "already"),
        ("prefill-kernels", standing(provenance="floor"), "no kernel is faster"),
        ("decode-kernels", standing(provenance="floor"), "no kernel is faster"),
        ("more-tp", standing(plan=Plan(tp=8)), "8 H100 SXM reach one another"),
        ("more-pp", standing(plan=Plan(pp=32)), "layers"),
        ("disaggregation", standing(split=(1, 1)), "pools of their own already"),
        ("more-bandwidth", standing("h200"), "B200 is the next, and has more of both"),
        ("more-flops", standing("b200"), "no NVIDIA accelerator with more"),
        ("shorter-output", standing(load=replace(LOAD, output=Lengths("fixed", 1))), "one token"),
    ],
)
def test_refusals_say_why(lever: str, now: Now, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        CHANGES[lever](now)


def change(lever: str, now: Now | None = None) -> Change:
    return CHANGES[lever](now or standing())


def test_weights_change_their_format_alone() -> None:
    for lever, format, arithmetic in (
        ("int8-weights", "int8-weight-only", "bf16"),
        ("int4-weights", "int4", "bf16"),
        ("fp8", "fp8", "fp8"),
    ):
        own = change(lever).setup
        assert own.model.storage.linear.name == format
        assert own.model.storage.linear.arithmetic == arithmetic
        assert replace(own, model=standing().setup.model) == standing().setup


def test_sizes_and_switches() -> None:
    assert change("kv-fp8").setup.kv == "fp8"
    assert change("fp8-arithmetic").setup.arithmetic == "fp8"
    assert change("larger-batch").setup.sizes.max_sequences == 512
    assert change("smaller-batch").setup.sizes.max_sequences == 3
    assert change("larger-chunk").setup.sizes.max_tokens == 16384
    assert change("smaller-chunk").setup.sizes.max_tokens == 2048
    assert change("prefill-first").setup.policy == "prefill-first"
    assert change("prefill-kernels").setup.kernels == Kernels(prefill=True)
    assert change("more-tp").setup.plan == Plan(tp=2)
    assert change("more-pp").setup.plan == Plan(pp=2)
    assert change("shorter-prompt").load.prompt_tokens == 1000
    assert change("shorter-output").load.output_tokens == 100
    assert change("prefix-cache").load.shared == 0.5
    assert (change("speculation").setup.drafts, change("speculation").setup.acceptance) == (3, 0.7)


@pytest.mark.parametrize(("share", "split"), [(0.8, (2, 1)), (0.5, (1, 1)), (0.1, (1, 1))])
def test_pools_by_the_phases_shares(share: float, split: tuple[int, int]) -> None:
    made = change("disaggregation", standing(prefill_share=share))
    assert made.setup.split == split
    assert made.rival is not None
    assert made.rival.replicas == sum(split)
    assert made.setup.devices == made.rival.devices


def test_the_next_accelerator_is_the_purest() -> None:
    """From an H100, an H200 has the same arithmetic and 4.8 / 3.35 of the bandwidth."""
    model = load_model("llama-3.1-8b")
    own = load_accelerator("h100-sxm")
    found = with_more(own, "bandwidth", model, ALONE)
    assert found is not None
    assert found.name == "h200"
    assert found.bandwidth / own.bandwidth == pytest.approx(4.8 / 3.35, rel=0.01)
    more = with_more(load_accelerator("a100"), "flops", model, ALONE)
    assert more is not None
    assert more.name == "h100-pcie"  # 2.4 times the arithmetic, the bandwidth of an A100


@pytest.mark.parametrize(("gpu", "alike"), [("h100-sxm", True), ("a100-80gb", False), ("gaudi2", False)])
@pytest.mark.parametrize("provenance", ["floor", "curves", "served"])
def test_caches_in_8_bits_are_simulated_once_where_both_take_as_long(
    gpu: str, alike: bool, provenance: str
) -> None:
    assert (twin_of("kv-int8", load_accelerator(gpu)) == "kv-fp8") == alike
    assert twin_of("kv-fp8", load_accelerator(gpu)) == "kv-fp8"
    if alike:
        now = standing(gpu, provenance=provenance)
        one, other = (
            pools_of(CHANGES[lever](now).setup, crowd(LOAD, 1))[0] for lever in ("kv-fp8", "kv-int8")
        )
        assert one.limits == other.limits
        for times, same in zip(one.estimate.times, other.estimate.times, strict=True):
            assert np.array_equal(times, same)


def test_the_best_kernels_keep_no_part_of_the_machine_idle() -> None:
    """A short chunk behind a long context: kernels as measured leave most of it waiting for a few blocks."""
    own, gpu = Deployment(load_model("llama-3.1-8b").spec), load_accelerator("rtx-pro-6000")
    curves, floor = (
        pass_times(own, gpu, "none", max_rows=64, max_sequences=1, provenance=base)
        for base in ("curves", "floor")
    )
    best = reached(curves, floor, Kernels(prefill=True))

    def context_s(times: PassTimes) -> float:
        near, far = (pass_cost(times, np.array([64]), np.array([kept]), 1)[0] for kept in (4096, 8192))
        return far - near

    assert context_s(floor) <= context_s(best) <= context_s(floor) / REACHABLE
    assert context_s(curves) > 2 * context_s(best)
