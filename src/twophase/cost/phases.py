"""Both phases of a model on an accelerator: a row for each prompt and each context, and one request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twophase.cost import textbook
from twophase.cost.communication import communication_s, exchanges
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import resident_bytes, stages
from twophase.cost.roofline import Floor, floor, floor_of
from twophase.cost.spans import Spans, decodes, prefills
from twophase.cost.textbook import Logits
from twophase.hardware.accelerator import Accelerator
from twophase.model.cache import kv_bytes

Bound = Literal["compute", "memory", "communication"]
LONGEST = 1 << 24  # tokens; a prompt that is still memory-bound here never turns
FINER = 64  # prompts that are tried at once where the turning point is looked for


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A pass, on one device of each pipeline stage. All but floor_s and communication_s is the textbook's.

    floor_s has exact pairs, the last row's logits only, and of routed experts those of one row.
    """

    batch: int
    tokens: int  # of a prefill's prompt, or of each decoding sequence's context
    flops: float
    bytes: float
    compute_s: float
    memory_s: float
    roofline_s: float  # the slower of the two, stage by stage
    floor_s: float
    communication_s: float
    tokens_per_s: float  # of the deployment, by the slower of roofline_s and communication_s

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    @property
    def bound(self) -> Bound:
        if self.communication_s > max(self.compute_s, self.memory_s):
            return "communication"
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
    """Weights, and the KV cache of the request's whole batch at its end, beside one device's memory."""

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
        """Devices that hold it together for each that is there, if it divides evenly."""
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
    own: Deployment,
    accelerator: Accelerator,
    prompts: Sequence[int],
    contexts: Sequence[int],
    batches: Sequence[int],
    request: tuple[int, int],
    logits: Logits = "all",
) -> Phases:
    """The textbook's two tables, floors beside them. prompts, contexts: tokens; request: (in, out).

    batches: sequences of the whole deployment; data-parallel replicas share them.
    """
    prompt, output = request
    batch = batches[0]
    first, *prefill_rows = _prefill_rows(own, accelerator, [prompt, *prompts], logits)
    grid = [(each, context) for each in batches for context in contexts]
    # each output token costs one step; the first of them sees the prompt, the last all but itself
    steps = floor_of(textbook.decode(own, _mine(batch, own), prompt + np.arange(output)), accelerator)
    return Phases(
        prefill=tuple(prefill_rows),
        decode=tuple(_decode_rows(own, accelerator, grid)),
        crossover_prompt=turning_point(
            lambda tokens: floor_of(textbook.prefill(own, tokens, logits), accelerator).compute_bound
        ),
        crossover_prompt_floor=turning_point(
            lambda tokens: floor(own, prefills(tokens), accelerator).compute_bound
        ),
        request=RequestTime(
            batch=batch,
            prompt_tokens=prompt,
            output_tokens=output,
            prefill_s=first.roofline_s,
            decode_s=float(steps.seconds.sum()),
            prefill_floor_s=first.floor_s,
        ),
        residence=_residence(own, accelerator, _mine(batch, own), prompt + output),
    )


def _residence(own: Deployment, accelerator: Accelerator, sequences: int, tokens: int) -> Residence:
    """Of the pipeline stage that needs most."""
    weights = resident_bytes(own.spec, own.storage, own.plan)
    parts = [
        replace(own.spec, layers=own.spec.layers[stage.start : stage.stop])
        for stage in stages(own.spec, own.plan.pp)
    ]
    kv = [sequences * kv_bytes(part, tokens, own.kv_bytes, own.plan.tp) for part in parts]
    most = max(zip(weights, kv, strict=True), key=sum)
    return Residence(*most, memory_bytes=accelerator.memory_bytes)


def _mine(batch: int, own: Deployment) -> int:
    """Sequences of the fullest data-parallel replica."""
    return ceil(batch / own.plan.dp)


def _prefill_rows(
    own: Deployment, accelerator: Accelerator, prompts: Sequence[int], logits: Logits
) -> list[PhaseRow]:
    tokens = np.asarray(prompts, np.int64)
    table = floor_of(textbook.prefill(own, tokens, logits), accelerator)
    ones = np.ones_like(tokens)
    return _rows(own, accelerator, ones, tokens, tokens, table, prefills(tokens))


def _decode_rows(
    own: Deployment, accelerator: Accelerator, grid: Sequence[tuple[int, int]]
) -> list[PhaseRow]:
    batch, context = np.asarray(grid, np.int64).T
    mine = -(-batch // own.plan.dp)
    table = floor_of(textbook.decode(own, mine, context), accelerator)
    return _rows(own, accelerator, batch, context, batch, table, decodes(mine, context))


def _rows(
    own: Deployment,
    accelerator: Accelerator,
    batch: NDArray[np.int64],
    tokens: NDArray[np.int64],
    made: NDArray[np.int64],
    table: Floor,
    spans: Spans,
) -> list[PhaseRow]:
    """made: tokens that a pass computes, which tokens_per_s counts."""
    least = floor(own, spans, accelerator).seconds
    moved = communication_s(exchanges(own, spans, accelerator), least)
    columns = (batch, tokens, table.flops, table.bytes, table.compute_s, table.memory_s, table.seconds)
    return [
        PhaseRow(*row)
        for row in zip(
            *(each.tolist() for each in (*columns, least, moved, made / np.maximum(table.seconds, moved))),
            strict=True,
        )
    ]


def turning_point(compute_bound: Callable[[NDArray[np.int64]], NDArray[np.bool_]]) -> int | None:
    """The shortest prompt that is compute-bound; longer ones are too."""
    low, high = 0, LONGEST  # memory-bound; compute-bound, if the longest is
    if not compute_bound(np.array([high]))[0]:
        return None
    while high - low > 1:
        step = -(-(high - low) // FINER)
        tried = np.append(np.arange(low + step, high, step), high)
        first = int(np.argmax(compute_bound(tried)))
        low, high = (int(tried[first - 1]) if first else low), int(tried[first])
    return high
