"""What passes cost, and which part of it is prefill's and which decode's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twophase.cost.deployment import Deployment, device_stages
from twophase.cost.operators import stage_operators, total
from twophase.cost.pass_ import Pass, Span
from twophase.cost.roofline import floor_of
from twophase.cost.spans import Spans
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
SHARED = ("flops", "bytes", "compute_s", "memory_s")  # that add up over a pass's spans and weights


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one device. Arrays over the passes."""

    flops: Floats
    bytes: Floats
    compute_s: Floats  # FLOPs at peak
    memory_s: Floats  # bytes at full bandwidth
    floor_s: Floats  # the longer of the two, where the device has no pipeline beside it


Price = Callable[[Spans], Costs]


@dataclass(frozen=True, slots=True)
class Work:
    """What one phase did, over some passes."""

    tokens: float = 0.0
    seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    compute_s: float = 0.0
    memory_s: float = 0.0
    floor_s: float = 0.0


def price_on(own: Deployment, accelerator: Accelerator) -> Price:
    stages = device_stages(own)

    def price(spans: Spans) -> Costs:
        found = floor_of([total(stage_operators(own, stage, spans)) for stage in stages], accelerator)
        return Costs(found.flops, found.bytes, found.compute_s, found.memory_s, found.seconds)

    return price


def is_decode(span: Span, prompt: int) -> bool:
    """Behind the prompt's `prompt` tokens, one row that makes a token, or a verification: the logits of all
    rows are wanted.
    """
    return span.context >= prompt and span.new == span.logit_rows


def phases_of(
    passes: Sequence[Pass], prompts: Sequence[Sequence[int]], seconds: Sequence[float], price: Price
) -> tuple[Work, Work]:
    """(prefill's work, decode's work) over the passes, which took so many seconds each.

    `prompts`: prompt tokens of each span's sequence.
    FLOPs and KV bytes belong to the spans that cause them. The weights' bytes belong to decode where a pass
    has one, for it would read them anyway. Seconds and floor are shared as the floors of both parts alone.
    """
    widest = max(len(each.spans) for each in passes)
    columns = np.zeros((4, len(passes), widest), np.int64)
    for i, (each, own) in enumerate(zip(passes, prompts, strict=True)):
        spans = [
            (span.new, span.context, span.logit_rows, is_decode(span, prompt))
            for span, prompt in zip(each.spans, own, strict=True)
        ]
        columns[:, i, : len(spans)] = np.array(spans, np.int64).T
    new, context, logits, decoding = columns
    there, rows = (new > 0).astype(np.int64), new.sum(-1)

    def priced(count: NDArray[np.int64]) -> Costs:
        return price(Spans(new, context, count, logits))

    whole, decode, prefill = priced(there), priced(there * decoding), priced(there * (1 - decoding))
    part = decode.floor_s / (decode.floor_s + prefill.floor_s)  # of seconds and floor, decode's
    took = np.asarray(seconds)
    decoded = (new * decoding).sum(-1)
    sums = {name: (getattr(whole, name).sum(), getattr(decode, name).sum()) for name in SHARED}
    return (
        Work(
            tokens=float((rows - decoded).sum()),
            seconds=float((took * (1 - part)).sum()),
            floor_s=float((whole.floor_s * (1 - part)).sum()),
            **{name: float(all_ - own) for name, (all_, own) in sums.items()},
        ),
        Work(
            tokens=float(decoded.sum()),
            seconds=float((took * part).sum()),
            floor_s=float((whole.floor_s * part).sum()),
            **{name: float(own) for name, (_, own) in sums.items()},
        ),
    )
