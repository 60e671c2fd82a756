"""Over which devices a row's model is dealt: as stated, and as a floor takes it."""

import re
from collections.abc import Mapping
from dataclasses import replace

from twophase.cost.parallel import Plan
from twophase.errors import InputError
from twophase.model.mixers import Attending
from twophase.model.spec import ModelSpec, MoE
from twophase.results import Point

# The columns of the pools of a disaggregated row, behind "prefill_" and "decode_".
POOL_FIELDS = {"tp": "tp_size", "pp": "pp_size", "dp": "attention_dp_size", "ep": "moe_ep_size"}
WORKERS = "num_workers"


def stated_plan(point: Point, assumed: list[str]) -> Plan:
    """What is not stated and can't follow is assumed so that no floor rises by it, and said."""
    pp = point.pp or 1
    if point.tp:
        dp = point.dp or max(1, (point.gpus or 0) // (point.tp * pp))
        if dp > (point.dp or 1):
            assumed.append(f"{dp} replicas of the {point.gpus} GPUs (TP {point.tp} is stated)")
        return Plan(point.tp, pp, point.ep or 1, dp)
    if point.gpus:
        dp = point.dp or 1
        tp = max(1, point.gpus // (pp * dp))
        if tp > 1:
            assumed.append(f"{tp} GPUs share each layer (no TP is stated)")
        return Plan(tp, pp, point.ep or 1, dp)
    if not (point.pp or point.dp or point.ep):
        assumed.append("one GPU (no number is stated)")
    return Plan(1, pp, point.ep or 1, point.dp or 1)


def pool_plan(point: Point, pool: str) -> Plan:
    """Of one worker of the pool."""
    if f"{pool}_{POOL_FIELDS['tp']}" not in point.unknown:
        raise InputError(f"prefill and decode have pools of their own, and the row has no {pool}_tp_size")
    return Plan(
        **{field: _whole(point.unknown, f"{pool}_{name}") or 1 for field, name in POOL_FIELDS.items()}
    )


def pool_cells(point: Point) -> tuple[tuple[str, str], ...]:
    """All that a row says of its pools."""
    if not point.disaggregated:
        return ()
    return tuple(cell for cell in point.unknown.items() if cell[0].startswith(("prefill_", "decode_")))


def workers_of(point: Point, pool: str) -> int:
    """0 where it is not said."""
    return _whole(point.unknown, f"{pool}_{WORKERS}")


def _whole(cells: Mapping[str, str], name: str) -> int:
    said = cells.get(name, "").strip()
    return int(said) if re.fullmatch(r"[0-9]{1,6}", said) else 0


def one_prompt_plan(plan: Plan, sparse: bool) -> Plan:
    """Replicas don't help with one prompt, but those that share experts may all work for it."""
    if sparse and plan.dp > 1:
        return Plan(plan.tp * plan.dp, plan.pp)
    return Plan(plan.tp, plan.pp, _ep(plan, 1) if sparse else 1)


def steps_plan(plan: Plan, sparse: bool) -> Plan:
    """Replicas of a dense model are models of their own; those of attention share the experts."""
    if not sparse or plan.dp == 1:
        return Plan(plan.tp, plan.pp, _ep(plan, 1) if sparse else 1)
    return replace(plan, ep=plan.ep if plan.ep > 1 and _ep(plan, plan.dp) > 1 else plan.tp * plan.dp)


def _ep(plan: Plan, dp: int) -> int:
    """1 where experts can't be dealt so over the devices."""
    return plan.ep if plan.ep and (plan.tp * dp) % plan.ep == 0 else 1


def has_experts(spec: ModelSpec) -> bool:
    return any(isinstance(layer.feed_forward, MoE) for layer in spec.layers)


def indivisible_heads(spec: ModelSpec, tp: int) -> int | None:
    """The number of heads that tp devices can't share evenly; None where they can."""
    for layer in dict.fromkeys(spec.layers):
        for mixer in layer.mixers:
            if isinstance(mixer, Attending) and mixer.heads % tp:
                return mixer.heads
    return None
