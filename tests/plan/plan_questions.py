"""Questions for the planner that are quick to answer."""

from typing import Any

from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.plan.question import Question
from twophase.plan.slo import Slo
from twophase.plan.space import Space
from twophase.simulate.presets import PRESETS
from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import lengths_of
from twophase.workload.synthetic import Recipe, synthetic
from twophase.workload.workload import Workload

SMALL = Space(
    gpus=("h100-sxm", "a100-80gb"),
    weights=("",),
    kv=("bf16",),
    tp=(1, 2),
    pp=(1,),
    max_tokens=(512, 2048),
    max_sequences=(64,),
)


def load(
    rate: float = 20.0,
    prompt: str = "lognormal:800,0.6",
    output: str = "lognormal:60,0.6",
    requests: int = 150,
    seed: str = "0",
) -> Workload:
    recipe = Recipe(Arrivals(rate), lengths_of("", prompt), lengths_of("", output))
    return synthetic(recipe, requests, seed)


def question(**given: Any) -> Question:
    space = given.pop("space", SMALL)
    devices = {name: load_accelerator(name) for name in space.gpus}
    own: dict[str, Any] = {
        "models": {"": load_model("llama-3.1-8b")},
        "accelerators": devices,
        "prices": {name: each.price_per_hour or 1.0 for name, each in devices.items()},
        "workload": load(),
        "slo": Slo(ttft_s=0.5, tpot_s=0.03),
        "space": space,
        "preset": PRESETS["vllm"],
        "context_length": 8192,
        "max_gpus": 4,
        **given,
    }
    return Question(**own)


def nothing(doing: str, share: float) -> None:
    """Shows nothing."""
