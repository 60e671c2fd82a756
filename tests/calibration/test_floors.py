"""PassTimes by arithmetic alone against cost.roofline, span by span."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.calibration.floors import floor_times
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.cost.pass_seconds import floor_seconds, pass_cost
from twophase.cost.roofline import floor
from twophase.cost.spans import Spans, decodes, prefills
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model

MODELS = ("llama-3-8b", "qwen3-30b-a3b", "gemma-3-27b", "deepseek-v3")
H100 = load_accelerator("h100-sxm")


def deployment(name: str, plan: Plan) -> Deployment:
    model = load_model(name)
    return Deployment(model.spec, model.storage, plan=plan)


def seconds(own: Deployment, spans: list[tuple[int, int]]) -> float:
    times = floor_times(own, H100, 8192, 256)
    new, context = np.array(spans).T
    return pass_cost(times, new, context, len(spans))[0]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("plan", [Plan(), Plan(tp=2)], ids=str)
def test_a_decode_is_bound_by_memory_all_through(name: str, plan: Plan) -> None:
    own = deployment(name, plan)
    expected = float(floor(own, decodes(8, 3000), H100, "expected").seconds)
    assert seconds(own, [(1, 3000)] * 8) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-3-27b"])
def test_a_long_prompt_is_bound_by_arithmetic_but_for_its_head(name: str) -> None:
    own = deployment(name, Plan())
    expected = float(floor(own, prefills(8192), H100, "expected").seconds)
    assert expected <= seconds(own, [(8192, 0)]) <= expected * 1.02


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MODELS),
    st.lists(st.tuples(st.integers(1, 1500), st.integers(0, 5000)), min_size=1, max_size=5),
)
def test_nothing_is_below_the_floor(name: str, spans: list[tuple[int, int]]) -> None:
    own = deployment(name, Plan())
    new, context = np.array(spans).T
    ones = np.ones_like(new)
    least = float(floor(own, Spans(new, context, ones, ones), H100).seconds)
    times = floor_times(own, H100, 8192, 256)
    found, flops, bytes_ = pass_cost(times, new, context, len(spans))
    assert found >= least * (1 - 1e-9)
    assert found >= floor_seconds(times, flops, bytes_) * (1 - 1e-9)
