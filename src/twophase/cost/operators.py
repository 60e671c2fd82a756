"""What a pass costs one device, operator by operator: operations, bytes read and bytes written.

Conventions: a multiply-add is two FLOPs; attention is causal, 2·(head_dim + value_dim) FLOPs a (query, key)
pair and head; logits for the rows that want them; weights are read once a pass in the format in which they
are stored; of the KV cache, what lies in it before the pass is read and the new tokens' part is written, as
far as a window lets anyone see it again; the embedding is a gather of the pass's rows. Of routed experts, a
floor reads those that one row needs at least; an expectation, those that uniform routing touches. Norms,
rotations and activations are not counted: no floor needs them.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twophase.cost.attention import mixing
from twophase.cost.deployment import Deployment, Experts, Stage, device_stages, kv_arithmetic
from twophase.cost.spans import Spans
from twophase.model.mixers import Attending

Floats = NDArray[np.float64]
# Routed experts: those of one row, or of uniform routing. Last layers that borrow keys and values: the rows
# whose logits are wanted, or all, as most engines do.
Touched = Literal["least", "expected"]

NAMES = {"attention": "attention projections", "recurrent": "recurrent projections"}


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of operator, over all layers of a stage. Arrays over the passes."""

    name: str
    flops: Mapping[str, Floats]  # by the operands' type
    read_bytes: Floats
    written_bytes: Floats

    @property
    def total_flops(self) -> Floats:
        return np.asarray(sum(self.flops.values()), np.float64)


@dataclass(frozen=True, slots=True)
class Work:
    """Of one device and pass. Arrays over the passes."""

    flops: Mapping[str, Floats]  # by the operands' type
    bytes: Floats

    @property
    def total_flops(self) -> Floats:
        return np.asarray(sum(self.flops.values()), np.float64)


def stage_operators(
    own: Deployment, stage: Stage, spans: Spans, touched: Touched = "least"
) -> list[Operator]:
    """spans: of one data-parallel replica."""
    found = _operators(own, stage, spans, touched)
    if stage.uncached is None:
        return found
    rows = wanted(spans) if touched == "least" else spans
    return _merged([*found, *_operators(own, stage.uncached, rows, touched)])


def wanted(spans: Spans) -> Spans:
    """The last rows of each span, whose logits are wanted."""
    return Spans(spans.logits, spans.context + spans.new - spans.logits, spans.count, spans.logits)


def _merged(every: list[Operator]) -> list[Operator]:
    """One operator a name."""
    found: dict[str, list[Operator]] = defaultdict(list)
    for each in every:
        found[each.name].append(each)
    return [
        Operator(
            name,
            total(alike).flops,
            np.asarray(sum(each.read_bytes for each in alike)),
            np.asarray(sum(each.written_bytes for each in alike)),
        )
        for name, alike in found.items()
    ]


def _operators(own: Deployment, stage: Stage, spans: Spans, touched: Touched) -> list[Operator]:
    rows = (spans.new * spans.count).sum(-1).astype(np.float64)
    logits = (spans.logits * spans.count).sum(-1).astype(np.float64)
    zero, some = np.zeros_like(rows), rows > 0
    found = [Operator("embedding", {}, rows * stage.gathered_bytes, zero)] if stage.gathered_bytes else []
    flops: dict[str, dict[str, Floats]] = defaultdict(dict)
    for (part, kind), a_row in stage.matrix_flops.items():
        flops[part][kind] = rows * a_row
    for part in dict.fromkeys([*flops, *stage.matrix_bytes]):
        read = some * stage.matrix_bytes.get(part, 0.0)
        if part == "experts":
            distinct = rows * own.plan.dp if own.plan.ep > 1 else rows
            for each in stage.experts:
                read = read + some * experts_read(each, distinct, touched)
        found.append(Operator(NAMES.get(part, part), flops[part], np.asarray(read, np.float64), zero))
    return [*found, *_mixing(own, stage, spans), _head(stage, logits)]


def experts_read(own: Experts, rows: Floats, touched: Touched) -> Floats:
    """Bytes of the distinct experts that a device reads, E·(1 - (1 - k/E)^rows) of uniform routing.

    Where experts are dealt out whole, the device with the most sets the pace: it has at least its even share.
    """
    if touched == "least":
        return np.full_like(rows, -(-own.top_k // own.devices) * own.bytes)
    missed = (1 - own.top_k / own.experts) ** rows
    return np.asarray(own.experts / own.devices * (1 - missed) * own.bytes)


def _mixing(own: Deployment, stage: Stage, spans: Spans) -> list[Operator]:
    sums: dict[str, list[Any]] = {}
    for mixer, layers in stage.mixers:
        attends = isinstance(mixer, Attending)
        each = mixing(mixer, spans.new, spans.context, own.kv_bytes, own.plan.tp)
        parts = (each.flops, each.read_bytes, each.written_bytes)
        total = [layers * (part * spans.count).sum(-1, dtype=np.float64) for part in parts]
        name = "attention" if attends else "recurrence"
        sums[name] = [a + b for a, b in zip(sums[name], total, strict=True)] if name in sums else total
    kind = kv_arithmetic(own)
    return [
        Operator(name, {kind if name == "attention" else own.arithmetic or "bf16": flops}, read, written)
        for name, (flops, read, written) in sums.items()
    ]


def _head(stage: Stage, logits: Floats) -> Operator:
    flops = {kind: logits * each for kind, each in stage.head_flops.items()}
    read = np.asarray((logits > 0) * stage.head_bytes, np.float64)
    return Operator("head", flops, read, np.zeros_like(logits))


def operators(own: Deployment, spans: Spans, touched: Touched = "least") -> list[Operator]:
    """Of a deployment without pipeline stages."""
    (stage,) = device_stages(own)
    return stage_operators(own, stage, spans, touched)


def total(every: list[Operator]) -> Work:
    flops: dict[str, Floats] = {}
    for each in every:
        for kind, own in each.flops.items():
            flops[kind] = flops[kind] + own if kind in flops else own
    return Work(flops, np.asarray(sum(each.read_bytes + each.written_bytes for each in every)))


def works(own: Deployment, spans: Spans, touched: Touched = "least") -> list[Work]:
    """Of one device of each pipeline stage."""
    return [total(stage_operators(own, stage, spans, touched)) for stage in device_stages(own)]
