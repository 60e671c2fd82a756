"""Both phases of a model on an accelerator: a row for each prompt and each context, and one request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from twophase.cost.pass_ import Pass, Span
from twophase.cost.roofline import Floor, floor
from twophase.cost.textbook import Formats, Work, decode, prefill, seconds
from twophase.hardware.accelerator import Accelerator
from twophase.model.cache import kv_bytes
from twophase.model.counts import parameters
from twophase.model.spec import ModelSpec

Bound = Literal["compute", "memory"]
LONGEST = 1 << 24  # tokens; a prompt that is still memory-bound here never turns


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A pass. All but floor_s is the textbook's; floor_s has exact pairs and the last row's logits only."""

    batch: int
    tokens: int  # of a prefill's prompt, or of each decoding sequence's context
    flops: float
    bytes: float
    compute_s: float
    memory_s: float
    floor_s: float
    tokens_per_s: float

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    @property
    def bound(self) -> Bound:
        return "compute" if self.compute_s >= self.memory_s else "memory"


@dataclass(frozen=True, slots=True)
class RequestTime:
    """A request alone in prefill, and one of `batch` like it in decode. Seconds, the textbook's."""

    batch: int
    prompt_tokens: int
    output_tokens: int
    prefill_s: float
    decode_s: float
    prefill_floor_s: float

    @property
    def decode_share(self) -> float:
        return self.decode_s / (self.prefill_s + self.decode_s)


@dataclass(frozen=True, slots=True)
class Residence:
    """Weights, and the KV cache of the request's whole batch at its end, beside one accelerator's memory."""

    weights_bytes: float
    kv_bytes: float
    memory_bytes: float

    @property
    def excess_bytes(self) -> float:
        return self.weights_bytes + self.kv_bytes - self.memory_bytes

    @property
    def fits(self) -> bool:
        return self.excess_bytes <= 0

    @property
    def needs(self) -> int:
        """Accelerators that hold it together, if it divides evenly."""
        return ceil((self.weights_bytes + self.kv_bytes) / self.memory_bytes)


@dataclass(frozen=True, slots=True)
class Phases:
    prefill: tuple[PhaseRow, ...]
    decode: tuple[PhaseRow, ...]
    crossover_prompt: int | None  # the shortest prompt whose prefill is compute-bound, by the textbook
    crossover_prompt_floor: int | None  # and by the floor
    request: RequestTime
    residence: Residence


def phases(
    spec: ModelSpec,
    accelerator: Accelerator,
    formats: Formats,
    prompts: Sequence[int],
    contexts: Sequence[int],
    batches: Sequence[int],
    request: tuple[int, int],
) -> Phases:
    """The textbook's two tables, floors beside them. prompts, contexts: tokens; request: (in, out)."""
    peak, bandwidth = accelerator.peak_flops, accelerator.bandwidth

    def floor_of(span: Span, batch: int = 1) -> Floor:
        pass_ = Pass((span,) * batch)
        return floor(spec, pass_, peak, bandwidth, formats.weight_bytes, formats.kv_bytes)

    def row(batch: int, tokens: int, new: int, work: Work, least: Floor) -> PhaseRow:
        flops, bytes_ = float(work.flops), float(work.bytes)
        compute_s, memory_s = flops / peak, bytes_ / bandwidth
        speed = batch * new / max(compute_s, memory_s)
        return PhaseRow(batch, tokens, flops, bytes_, compute_s, memory_s, least.seconds, speed)

    def prefill_row(prompt: int) -> PhaseRow:
        return row(1, prompt, prompt, prefill(spec, prompt, formats), floor_of(Span(0, prompt, 0)))

    def decode_row(batch: int, context: int) -> PhaseRow:
        least = floor_of(Span(0, 1, context), batch)
        return row(batch, context, 1, decode(spec, batch, context, formats), least)

    prompt, output = request
    batch = batches[0]
    # each output token costs one step; the first of them sees the prompt, the last all but itself
    steps = decode(spec, batch, prompt + np.arange(output), formats)
    alone = prefill_row(prompt)
    resident = kv_bytes(spec, prompt + output, formats.kv_bytes) * batch
    return Phases(
        prefill=tuple(prefill_row(prompt) for prompt in prompts),
        decode=tuple(decode_row(batch, context) for batch in batches for context in contexts),
        crossover_prompt=turning_point(lambda prompt: prefill_row(prompt).bound == "compute"),
        crossover_prompt_floor=turning_point(lambda prompt: floor_of(Span(0, prompt, 0)).bound == "compute"),
        request=RequestTime(
            batch=batch,
            prompt_tokens=prompt,
            output_tokens=output,
            prefill_s=max(alone.compute_s, alone.memory_s),
            decode_s=float(seconds(steps, peak, bandwidth).sum()),
            prefill_floor_s=alone.floor_s,
        ),
        residence=Residence(
            weights_bytes=parameters(spec).total * formats.weight_bytes,
            kv_bytes=resident,
            memory_bytes=accelerator.memory_bytes,
        ),
    )


def turning_point(compute_bound: Callable[[int], bool]) -> int | None:
    """The shortest prompt that is compute-bound; longer ones are too."""
    if not compute_bound(LONGEST):
        return None
    low, high = 0, LONGEST  # memory-bound, compute-bound
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if compute_bound(middle) else (middle, high)
    return high
