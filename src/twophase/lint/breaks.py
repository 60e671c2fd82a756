"""Which assumption breaks where a row beats its floor: found by trying each, and said in one sentence."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from twophase.cost.parallel import Plan
from twophase.lint.plans import indivisible_heads
from twophase.lint.quantities import Name, Quantity, quantities
from twophase.lint.resident import Resident, resident
from twophase.lint.served import Served, with_plan, with_weights
from twophase.results import Point

Assumption = Literal[
    "one token a pass", "resident batch", "parallelism", "dense peak", "precision", "rate", "no prefix cache"
]

TOLERANCE = 0.97  # of the floor: a measured time is rounded, and a mean of lengths is
MOST_DRAFTED = 4.0  # tokens a pass that speculative decoding can be believed
SPARSE = 2.0  # 2:4 sparsity's peak to the dense one
WAYS = (2, 4, 8, 16, 32, 64, 72)
NARROWER = ("fp8", "nvfp4")
TOKENS_OUT: tuple[Name, ...] = ("ITL", "E2E", "output", "total", "requests")


@dataclass(frozen=True, slots=True)
class Break:
    assumption: Assumption
    says: str  # completes "possible ..."


def possible(each: Quantity) -> bool:
    return each.measured_s >= TOLERANCE * each.floor_s


def breaks(point: Point, served: Served, broken: Quantity) -> list[Break]:
    """Each assumption that, dropped alone, makes the quantity possible."""
    tries = (_batch, _speculation, _cached, _parallel, _sparse, _precision, _rate)
    return [found for each in tries for found in each(point, served, broken)]


def _again(point: Point, served: Served, name: Name, batch: Resident | None = None) -> bool:
    """Whether that quantity is possible under other circumstances."""
    return any(each.name == name and possible(each) for each in quantities(point, served, batch))


def _batch(point: Point, served: Served, broken: Quantity) -> Iterator[Break]:
    if broken.name not in ("ITL", "E2E"):
        return
    batch = resident(point, served)

    def holds(sequences: int) -> bool:
        return _again(point, served, broken.name, replace(batch, decoding=float(sequences)))

    low, high = 0, int(batch.decoding)  # possible, impossible
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    if low:
        yield Break(
            "resident batch",
            f"if at most {low} sequences were in a decode step{_of_replica(served)}, "
            f"not {batch.decoding:.0f}",
        )


def _of_replica(served: Served) -> str:
    return f" of each of {served.replicas} replicas" if served.replicas > 1 else ""


def _speculation(point: Point, served: Served, broken: Quantity) -> Iterator[Break]:
    tokens = 1 / broken.headroom
    decodes = broken.name in TOKENS_OUT and (point.output_tokens or 2) > 1
    if decodes and broken.bound == "memory" and tokens < MOST_DRAFTED:
        yield Break("one token a pass", f"with speculative decoding, at {tokens:.2g} tokens a pass or more")


def _cached(point: Point, served: Served, broken: Quantity) -> Iterator[Break]:
    if broken.name not in ("TTFT", "E2E", "total", "input", "requests") or not point.input_tokens:
        return
    prompt = int(point.input_tokens)
    low, high = int(point.cached_tokens or 0), prompt  # impossible, possible
    if not _again(replace(point, cached_tokens=float(prompt - 1)), served, broken.name):
        return
    while high - low > max(1, prompt // 100):
        middle = (low + high) // 2
        found = _again(replace(point, cached_tokens=float(middle)), served, broken.name)
        low, high = (low, middle) if found else (middle, high)
    yield Break("no prefix cache", f"if {high / prompt:.0%} of each prompt was in a prefix cache")


def _parallel(point: Point, served: Served, broken: Quantity) -> Iterator[Break]:
    plan = served.decode.own.plan
    for tp in WAYS:
        if tp > plan.tp:
            wider = with_plan(served, Plan(tp, plan.pp, 1, 1))
            if not indivisible_heads(served.decode.own.spec, tp) and _again(point, wider, broken.name):
                yield Break("parallelism", f"with tensor parallelism over {tp} devices, not {plan.tp}")
                break
    if plan.tp > 1 and plan.dp == 1:
        replicas = with_plan(served, Plan(1, plan.pp, plan.ep, plan.tp))
        if _again(point, replicas, broken.name):
            yield Break(
                "parallelism", f"with data-parallel attention over {plan.tp} devices in place of TP {plan.tp}"
            )


def _sparse(point: Point, served: Served, broken: Quantity) -> Iterator[Break]:
    own = served.accelerator
    doubled = replace(own, flops={kind: SPARSE * flops for kind, flops in own.flops.items()})
    if _again(point, replace(served, accelerator=doubled), broken.name):
        yield Break("dense peak", f"at {own.title}'s peak with 2:4 sparsity")


def _precision(point: Point, served: Served, broken: Quantity) -> Iterator[Break]:
    bits = served.decode.own.storage.linear.bits
    for weights in NARROWER:
        other = with_weights(served, weights)
        if other.decode.own.storage.linear.bits < bits and _again(point, other, broken.name):
            yield Break("precision", f"with weights in {weights}, not {served.decode.own.storage.name}")
            return


def _rate(point: Point, served: Served, broken: Quantity) -> Iterator[Break]:
    if not broken.is_rate:
        return
    slower = 1 / broken.headroom
    prompt, output = point.input_tokens, point.output_tokens
    if broken.name == "output" and prompt and output and 1 + prompt / output >= TOLERANCE * slower:
        yield Break("rate", "if the rate counts input and output tokens together")
    per_gpu = point.output_tokens_per_s_per_gpu or point.total_tokens_per_s_per_gpu
    if per_gpu and served.devices > 1 and served.devices >= TOLERANCE * slower:
        yield Break("rate", f"if the rate is of all {served.devices} devices, not of each")
