"""The single multiplies add up to what cost.deployment counts of a device."""

import pytest

from twophase.calibration.shapes import stage_shapes
from twophase.cost.deployment import Deployment, device_stages
from twophase.cost.parallel import Plan
from twophase.model.catalogue import load_model

CASES = [
    ("llama-3-8b", Plan()),
    ("llama-3-8b", Plan(tp=4, pp=2)),
    ("qwen3-30b-a3b", Plan(tp=2)),
    ("qwen3-30b-a3b", Plan(tp=2, dp=2, ep=4)),
    ("deepseek-v3", Plan(tp=8)),
    ("gpt-oss-120b", Plan(tp=2, ep=2)),
    ("gemma-3-27b", Plan()),
    ("qwen3-next-80b-a3b", Plan(tp=2)),
]


@pytest.mark.parametrize(("name", "plan"), CASES, ids=str)
def test_flops_and_bytes_are_those_of_the_device(name: str, plan: Plan) -> None:
    model = load_model(name)
    own = Deployment(model.spec, model.storage, plan=plan)
    for shapes, stage in zip(stage_shapes(own), device_stages(own), strict=True):
        flops = sum(2.0 * each.outputs * each.inputs * each.times for each in shapes.gemms)
        dealt = plan.dp / plan.ep if plan.ep > 1 else 1.0
        for each in shapes.grouped:
            flops += 2.0 * each.times * each.top_k * each.matrices * each.hidden * each.inter * dealt
        assert flops == pytest.approx(sum(stage.matrix_flops.values()))
        dense = sum(each.weight_bytes * each.times for each in shapes.gemms)
        assert dense == pytest.approx(sum(stage.matrix_bytes.values()), rel=1e-4)
        experts = sum(each.expert_bytes * each.times for each in shapes.grouped)
        assert experts == pytest.approx(sum(each.bytes for each in stage.experts), rel=1e-3)
        heads = sum(each.weight_bytes for each in shapes.heads)
        assert heads == pytest.approx(stage.head_bytes)


def test_what_shares_its_input_is_one_multiply() -> None:
    (shapes,) = stage_shapes(Deployment(load_model("llama-3-8b").spec))
    found = {each.name: (each.outputs, each.inputs, each.times) for each in shapes.gemms}
    assert found == {
        "self_attn.qkv_proj": (4096 + 2 * 1024, 4096, 32),
        "self_attn.o_proj": (4096, 4096, 32),
        "mlp.gate_up_proj": (2 * 14336, 4096, 32),
        "mlp.down_proj": (4096, 14336, 32),
    }
