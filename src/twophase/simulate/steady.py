"""TTFT and TPOT of a deployment under a steady number of clients, without simulating a single request.

    found = predict_steady(own, accelerator, "vllm", 1024, 512, concurrency=64)
    found.tpot_s, found.ttft_s, found.batch

Means over requests; lengths are means, too. For distributions, policies and traces there is `simulate`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.estimate import estimate
from twophase.calibration.served_times import constants, engine_table
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import resident_bytes
from twophase.cost.pass_times import PassTimes
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator
from twophase.model.cache import caches, sequence_bytes
from twophase.simulate.steady_loop import Load, Passes, Queueing, Solved, solve

Floats = NDArray[np.float64]
Source = Literal["floor", "curves", "served"]
# Assumed, and the constants of served.toml were fitted with them (bench/fit_serving.py): the share of memory
# that engines use; bytes for all but weights and cache; the least share that is left for the cache
USABLE, OTHER_BYTES, LEAST = 0.93, 2e9, 0.06
GROWN = 0.75  # of its output, that a sequence has when memory is short: those of a batch grow together
CHUNK = 8192  # rows of a prompt in one pass, as engines choose on devices of 80 GB and more: see presets


@dataclass(frozen=True, slots=True)
class PromptPool:
    """Where prompts are computed apart: each worker is one such deployment."""

    own: Deployment
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Steady:
    ttft_s: float
    tpot_s: float
    requests_per_s: float  # of the whole system
    batch: float  # sequences of a decode pass of one replica
    held: float  # that its memory holds at most
    pass_s: float  # a decode pass alone
    prompt_s: float  # that a prompt takes of a pass, or of its own
    memory_wait_s: float  # of ttft_s, for room in memory
    ttft_range_s: tuple[float, float]  # measured points lie in it, four of five
    tpot_range_s: tuple[float, float]
    provenance: Source


def predict_steady(
    own: Deployment,
    accelerator: Accelerator,
    engine: str,
    prompt_tokens: float,
    output_tokens: float,
    concurrency: float,
    *,
    workers: int = 1,
    prompts: PromptPool | None = None,
    accepted: float = 1.0,
    chunk: int = CHUNK,
    in_step: bool = False,
    looks: float = 1.0,
    provenance: Source = "served",
) -> Steady:
    """concurrency: clients of the whole system, on workers · dp replicas. accepted: tokens of a decode pass.
    in_step: all requests are equally long, so that those that began together end and begin again together.
    looks: passes from one look of the engine for new requests to the next, SGLang's scheduler-recv-interval.

    InputError where the weights alone are more than a device's memory, or a number is out of range.
    """
    asked = {"prompt": prompt_tokens, "output": output_tokens, "concurrency": concurrency, "looks": looks}
    for name, value in asked.items():
        if not 1 <= value < float("inf"):
            raise InputError(f"{name} {value:g}: it must be a number from 1 on")
    replicas, pool = workers * own.plan.dp, prompts or PromptPool(own, workers)
    load = Load(
        prompt=_one(prompt_tokens),
        output=_one(output_tokens),
        clients=_one(concurrency / replicas),
        prompters=_one(concurrency / (pool.workers * pool.own.plan.dp)),
        held=_one(held_sequences(own, accelerator, prompt_tokens + GROWN * output_tokens)),
        chunk=_one(chunk),
        apart=_one(prompts is not None),
        first=_one(engine_table(engine)["prompts_first"]),
        accepted=_one(accepted),
    )
    rows, sequences = int(chunk + load.held[0]) + 2, int(max(load.held[0], 1)) + 2
    most = int(max(concurrency / replicas, 1)) + 2
    rows, sequences = min(rows, chunk + most), min(sequences, most)
    decoding, prompting = (
        passes_of(_times(each, accelerator, engine, provenance, rows, sequences)) for each in (own, pool.own)
    )
    queueing = queueing_of(engine, prompts is not None, in_step, looks)
    found = solve(decoding, prompting, load, queueing)
    return _steady(found, load, replicas, provenance)


def queueing_of(engine: str, apart: bool = False, in_step: bool = False, looks: float = 1.0) -> Queueing:
    own, shared = engine_table(engine), constants()["queueing"]
    merged = in_step and not apart and own["prompts_first"] > 0
    waited = shared["apart_waited"] if apart else shared["waited"] + shared["looked"] * (looks - 1)
    return Queueing(
        front_s=_one(own["front_s"]),
        request_s=_one(shared["apart_request_s"] if apart else own["request_s"]),
        burst=_one(shared["merged" if merged else "burst"]),
        together=_one(shared["together"] if in_step and not apart and not merged else 0.0),
        waited=_one(waited),
        prompts=_one(shared["prompts"]),
    )


def held_sequences(own: Deployment, accelerator: Accelerator, tokens: float) -> float:
    """Of so many tokens each, in the memory of a device."""
    memory, weights = accelerator.memory_bytes, max(resident_bytes(own.spec, own.storage, own.plan))
    if weights > memory:
        raise InputError(
            f"{own.spec.name}: {weights / 1e9:.4g} GB of weights on each device, "
            f"{accelerator.title} has {memory / 1e9:.4g} GB: more devices (--tp) or a narrower format"
        )
    pool = max(USABLE * memory - weights - OTHER_BYTES, LEAST * memory)
    kept = tuple(caches(own.spec, own.kv_bytes, own.plan.tp).items())
    sequence = sequence_bytes(kept, int(tokens)) / own.plan.pp
    return max(1.0, pool / sequence) if sequence else float("inf")


def passes_of(times: PassTimes) -> Passes:
    """Fractions of a row are interpolated: the mean of passes that have one more or less."""

    def between(values: Floats, at: Floats) -> Floats:
        return np.interp(at, np.arange(len(values)), values)

    def rows_s(rows: Floats) -> Floats:
        return between(times.decode_rows_s, rows)

    def mixed_s(rows: Floats) -> Floats:
        return between(times.rows_s, rows)

    def logits_s(rows: Floats) -> Floats:
        return between(times.logits_s, rows)

    return Passes(rows_s, mixed_s, logits_s, times.mixers)


def _times(
    own: Deployment, accelerator: Accelerator, engine: str, provenance: Source, rows: int, sequences: int
) -> PassTimes:
    return estimate(
        own, accelerator, engine, max_rows=rows, max_sequences=sequences, provenance=provenance
    ).times


def _steady(found: Solved, load: Load, replicas: int, provenance: Source) -> Steady:
    ttft, tpot = float(found.ttft_s[0]), float(found.tpot_s[0])
    spread = constants()["interval"]
    whole = ttft + (float(load.output[0]) - 1) * tpot
    return Steady(
        ttft_s=ttft,
        tpot_s=tpot,
        requests_per_s=float(load.clients[0]) * replicas / whole,
        batch=float(found.batch[0]),
        held=float(load.held[0]),
        pass_s=float(found.pass_s[0]),
        prompt_s=float(found.prompt_s[0]),
        memory_wait_s=float(found.memory_wait_s[0]),
        ttft_range_s=(spread["ttft"][0] * ttft, spread["ttft"][1] * ttft),
        tpot_range_s=(spread["tpot"][0] * tpot, spread["tpot"][1] * tpot),
        provenance=provenance,
    )


def _one(value: float) -> Floats:
    return np.array([float(value)])
