"""What a row measured, each beside the least that its model and hardware allow. All are times.

Floors are strict, so that no right row is below one: each prompt alone, contexts of the prompt only, one
row's experts, no communication, all of a pipeline's stages equally busy. What the hardware really had to do,
for MFU and MBU, is counted with the experts that uniform routing touches.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twophase.cost.operators import Touched
from twophase.cost.roofline import Bound, Floor
from twophase.cost.spans import Spans, decodes, prefills
from twophase.lint.deployed import floor
from twophase.lint.resident import Resident, output_rate, resident, time_per_token
from twophase.lint.served import Served
from twophase.results import Point

Name = Literal["TTFT", "ITL", "E2E", "output", "total", "input", "requests"]
BOTH: tuple[Touched, Touched] = ("least", "expected")
STEPS_ALONE = 0.98  # of clients / TPOT
SEGMENTS = 8  # of the way from the prompt to the last token, over which a rate's contexts are averaged


@dataclass(frozen=True, slots=True)
class Quantity:
    """A time in seconds, a rate as the seconds for one of `per` (which the whole system makes)."""

    name: Name
    measured_s: float
    floor_s: float
    compute_s: float  # of the work that was really to do, at peak
    memory_s: float  # and at full bandwidth

    @property
    def is_rate(self) -> bool:
        return self.name in ("output", "total", "input", "requests")

    @property
    def headroom(self) -> float:
        return self.measured_s / self.floor_s

    @property
    def mfu(self) -> float:
        return self.compute_s / self.measured_s

    @property
    def mbu(self) -> float:
        return self.memory_s / self.measured_s

    @property
    def bound(self) -> Bound:
        return "compute" if self.compute_s >= self.memory_s else "memory"


def quantities(point: Point, served: Served, batch: Resident | None = None) -> list[Quantity]:
    """Of all that the row measured and that has a floor; `batch` in place of what the row says."""
    batch = batch or resident(point, served)
    found = [_ttft(point, served, batch), _itl(point, served, batch), _e2e(point, served, batch)]
    return [*(each for each in found if each), *_rates(point, served, batch)]


def _ttft(point: Point, served: Served, batch: Resident) -> Quantity | None:
    if not point.ttft_s or not point.input_tokens:
        return None
    return _quantity("TTFT", point.ttft_s, lambda touched: _prefill(point, served, batch, touched))


def _prefill(point: Point, served: Served, batch: Resident, touched: Touched) -> Floor:
    """A static batch computes its prompts in one pass; who serves clients begins with one alone."""
    together = int(batch.decoding) if point.batch_is_resident else 1
    return floor(served.prefill, _prompt(point, together), served.accelerator, touched)


def _prompt(point: Point, together: int) -> Spans:
    cached = int(point.cached_tokens or 0)
    return prefills(max(1, int(point.input_tokens or 1) - cached), cached, together)


def _itl(point: Point, served: Served, batch: Resident) -> Quantity | None:
    measured = time_per_token(point)
    if not measured:
        return None
    return _quantity("ITL", measured, lambda touched: _step(point, served, batch.decoding, touched))


def _step(point: Point, served: Served, batch: float, touched: Touched) -> Floor:
    spans = decodes(int(batch), int(point.input_tokens or 0))
    return floor(served.decode, spans, served.accelerator, touched)


def _e2e(point: Point, served: Served, batch: Resident) -> Quantity | None:
    """Of rows that have no other time; clients may have been alone in their steps.

    Beside TTFT and TPOT it says nothing more: where it doesn't agree with them, the row contradicts itself.
    """
    if not point.e2e_s or not point.input_tokens or not point.output_tokens or time_per_token(point):
        return None
    sequences = batch.decoding if point.batch_is_resident else 1.0
    steps = max(0.0, point.output_tokens - 1)

    def work(touched: Touched) -> tuple[float, float, float]:
        first = _prefill(point, served, batch, touched)
        step = _step(point, served, sequences, touched)
        return (
            float(first.seconds + steps * step.seconds),
            float(first.compute_s + steps * step.compute_s),
            float(first.memory_s + steps * step.memory_s),
        )

    least, real = map(work, BOTH)
    return Quantity("E2E", point.e2e_s, least[0], *real[1:])


def _rates(point: Point, served: Served, batch: Resident) -> Iterator[Quantity]:
    prompt, output = point.input_tokens, point.output_tokens
    total_per_gpu = point.total_tokens_per_s_per_gpu
    total = point.total_tokens_per_s or (total_per_gpu * served.devices if total_per_gpu else None)
    rates: list[tuple[Name, float | None, float | None]] = [
        ("output", output_rate(point, served), output),
        ("total", total, prompt + output if prompt and output else None),
        ("input", point.input_tokens_per_s, prompt),
        ("requests", point.requests_per_s, 1.0 if prompt and output else None),
    ]
    for name, rate, tokens in rates:
        if not rate:
            continue
        if name == "output" and (not (prompt and output) or _of_steps_alone(rate, point)):
            yield _steps_alone(rate, point, served, batch)
        elif tokens and prompt and output:  # all of a request's work is known
            yield _shared(name, rate, tokens, point, served, batch)


def _of_steps_alone(rate: float, point: Point) -> bool:
    """Whether the rate is over decode steps only: clients / TPOT, although a request has a prompt, too."""
    tpot = time_per_token(point)
    return bool(tpot and point.concurrency and rate * tpot >= STEPS_ALONE * point.concurrency)


def _steps_alone(rate: float, point: Point, served: Served, batch: Resident) -> Quantity:
    each = max(1, int(batch.most)) * served.replicas * served.decode.own.plan.pp
    step, real = (_step(point, served, batch.most, touched) for touched in BOTH)
    least = max(float(step.compute_s), float(step.memory_s)) / each
    return Quantity("output", 1 / rate, least, float(real.compute_s) / each, float(real.memory_s) / each)


def _shared(
    name: Name, rate: float, tokens: float, point: Point, served: Served, batch: Resident
) -> Quantity:
    """Seconds of the system for one token: a request's share of the passes that it is in."""
    per = tokens * served.replicas
    least, real = ([s / per for s in _request(point, served, batch.most, touched)] for touched in BOTH)
    return Quantity(name, 1 / rate, max(least), *real)


def _request(point: Point, served: Served, sequences: float, touched: Touched) -> tuple[float, float]:
    """(at peak, at full bandwidth): its prompt, and its part of decode steps of so many sequences.

    Prompts may ride in passes that read the weights anyhow; contexts count from the begin of each segment.
    """
    prompt, output = int(point.input_tokens or 1), int(point.output_tokens or 1)
    apart = point.disaggregated  # then prompts are another pool's work
    first = 0.0 if apart else _compute(served, _prompt(point, 1))
    together = max(1, int(sequences))
    contexts = prompt + np.arange(SEGMENTS) * (output - 1) // SEGMENTS
    steps = floor(served.decode, decodes(together, contexts), served.accelerator, touched)
    share = max(0, output - 1) / together
    stages = served.decode.own.plan.pp
    compute = first + share * float(steps.compute_s.mean())
    return compute / stages, share * float(steps.memory_s.mean()) / stages


def _compute(served: Served, spans: Spans) -> float:
    """Each replica has a prompt of its own."""
    return float(floor(served.decode, spans, served.accelerator).compute_s)


def _quantity(name: Name, measured: float, work: Callable[[Touched], Floor]) -> Quantity:
    least, real = map(work, BOTH)
    return Quantity(name, measured, float(least.seconds), float(real.compute_s), float(real.memory_s))
