"""The simulator beside this machine's own engine: the same Poisson load, request by request.

    python bench/end_to_end.py [--requests N] [--rounds N] [--load SHARE] [--threads N] [--markdown PATH]

A small model of random weights serves in process, on the real clock. Before and after every load, passes of
other requests are timed; a calibration of both is what the load is simulated with: same arrivals, lengths,
policy and limits. Figures are medians over the rounds. Beside them stands the same simulation with the
machine's own speed of each moment, which nobody can know before. --markdown writes the tables between the
markers of that file.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from table import put_between_markers

from twophase.calibration.calibrated import Calibration
from twophase.calibration.estimate import estimate
from twophase.calibration.fitting import Measured, calibrate
from twophase.cost.deployment import Deployment
from twophase.cost.pass_ import Pass
from twophase.cost.pass_seconds import pass_cost
from twophase.cost.pass_times import PassTimes
from twophase.engine.executor import Executor
from twophase.engine.kv import new_pool
from twophase.engine.open import FoundModel, OpenModel, load_model
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.probe import COMPUTES, cpu_name, machine_bytes, matmul_rate, read_rate
from twophase.model.hf_config import spec_from_config
from twophase.records import PassRecord
from twophase.scheduler.clock import Clock, RealClock, VirtualClock
from twophase.scheduler.drive import Executor as Runs
from twophase.scheduler.drive import drive
from twophase.scheduler.log import Log
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler
from twophase.simulate.books import FINISHED_S, FIRST_TOKEN_S, PRODUCED
from twophase.simulate.outcome import gaps_of
from twophase.simulate.setting_up import requests_of
from twophase.simulate.simulation import simulate_replica
from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import Lengths
from twophase.workload.seeded import generator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
POLICIES = ("decode-first", "prefill-first", "static", "shortest-first")
# the shape of Qwen3-0.6B, made narrower, shallower and of fewer words; its weights are beyond the caches
CONFIG = {
    "model_type": "qwen3",
    "vocab_size": 8192,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
}
SEQUENCES, BUDGET, LONGEST_PROMPT, LONGEST_OUTPUT = 8, 256, 512, 128
LIMITS = Limits(
    blocks=SEQUENCES * (LONGEST_PROMPT + LONGEST_OUTPUT) // 16,
    context_length=LONGEST_PROMPT + LONGEST_OUTPUT,
    max_sequences=SEQUENCES,
    max_tokens=BUDGET,
    prefix_cache=False,
)
PROMPTS, OUTPUTS = Lengths("lognormal", 128, 0.7), Lengths("lognormal", 32, 0.6)
BATCHES = (1, 2, 3, 4, 6, 8)  # requests at once, of the passes that calibrate
MOMENT_S = 0.2  # for so long the machine is taken to keep its speed
IDLE_S = 3e-3  # nobody was there to run, where the next pass begins so much later
PROBE_S = 0.3
GOALS = {"TTFT p50": 0.05, "TTFT p99": 0.15, "TPOT p50": 0.05, "TPOT p99": 0.15}
ORDERED = ("TTFT mean", "gap p99")  # by which policies are put in order
ALIKE = 0.05  # figures that differ by less have no order


class Load(NamedTuple):
    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints


@dataclass(frozen=True, slots=True)
class Engine:
    model: OpenModel
    executor: Executor
    accelerator: Accelerator

    @property
    def own(self) -> Deployment:
        return self.model.deployment()


@dataclass(frozen=True, slots=True)
class Pair:
    """One load, measured and simulated."""

    measured: dict[str, float]
    simulated: dict[str, float]
    at_its_pace: dict[str, float]  # simulated once more, at the speed that the machine had at each moment
    drift: float  # of the calibrating passes, after it over before it
    pace: float  # the load's own passes, measured over estimated
    calibration: Calibration
    took_s: float


def open_engine(threads: int) -> Engine:
    spec = spec_from_config(CONFIG, "small-qwen3", "bench/end_to_end.py")
    model = load_model(FoundModel(spec, "random", None, "bf16", "bf16", ()))
    pool = new_pool(spec, LIMITS.blocks, "bf16", LIMITS.context_length)
    executor = Executor(model.network, pool, threads, prefix_cache=False)
    executor.warm_up()
    return Engine(model, executor, roofs(model, threads))


def roofs(model: OpenModel, threads: int) -> Accelerator:
    for seconds in (0.0, PROBE_S):  # the first run compiles the probes
        peak = matmul_rate("bf16", threads, seconds)
        bandwidth = read_rate(model.network.arena, threads, seconds)
    memory = machine_bytes()
    return Accelerator(
        name="this-machine",
        title=cpu_name(),
        vendor="",
        flops={COMPUTES["bf16"]: peak},
        memory_bytes=memory,
        marketed_bytes=memory,
        bandwidth=bandwidth,
        kind="measured",
    )


def load_of(count: int, rate: float, seed: str) -> Load:
    prompt = np.minimum(PROMPTS.draws(count, generator(seed, "prompts")), LONGEST_PROMPT)
    output = np.minimum(OUTPUTS.draws(count, generator(seed, "outputs")), LONGEST_OUTPUT)
    arrival_s = Arrivals(rate).first(count, seed) if rate < np.inf else np.zeros(count)
    return Load(arrival_s, prompt, output)


def served(engine: Engine, load: Load, policy: str, limits: Limits = LIMITS) -> Log:
    """By the engine, on the real clock."""
    executor, words = engine.executor, engine.model.spec.vocab_size
    draw = generator("words", policy)
    for sequence, tokens in enumerate(load.prompt_tokens):
        executor.begin(sequence, draw.integers(0, words, tokens).tolist())
    return driven(load, policy, limits, executor, RealClock(), executor.end)


def driven(
    load: Load,
    policy: str,
    limits: Limits,
    executor: Runs,
    clock: Clock,
    end: Callable[[int], object] = lambda sequence: None,
) -> Log:
    """What passes cost in FLOPs is not asked for: it takes time."""
    lengths = zip(load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True)
    requests = [Request(sequence, *each) for sequence, each in enumerate(lengths)]
    arrivals = zip(load.arrival_s.tolist(), requests, strict=True)
    log = Log(lambda pass_: (0.0, 0.0))
    for progress in drive(arrivals, Scheduler(limits, policy), executor, clock, log):
        for sequence in progress.finished:
            end(sequence)
    return log


def calibrating_passes(engine: Engine) -> list[Measured]:
    """Passes of requests that are none of the load's: as many at once as a batch has, chunks beside decodes.
    A pass lasts until the next one begins, so what the engine does between them counts.
    """
    found = []
    for batch in BATCHES:
        load = load_of(2 * batch + 2, np.inf, f"calibration {batch}")
        load = load._replace(output_tokens=np.minimum(load.output_tokens, 40))
        limits = Limits(
            blocks=LIMITS.blocks,
            context_length=LIMITS.context_length,
            max_sequences=batch,
            max_tokens=BUDGET if batch % 2 else BUDGET // 2,
            prefix_cache=False,
        )
        passes = served(engine, load, "decode-first", limits).passes
        found += [measured(one, after) for one, after in pairwise(passes)]
    return found


def measured(one: PassRecord, after: PassRecord) -> Measured:
    return Measured(np.array(one.shape, np.int64), sum(one.logit_rows), after.started_s - one.started_s)


def times_of(engine: Engine, calibration: Calibration) -> PassTimes:
    return estimate(
        engine.own,
        engine.accelerator,
        "none",
        max_rows=BUDGET,
        max_sequences=SEQUENCES,
        provenance="calibrated",
        calibration=calibration,
    ).times


def simulated(load: Load, policy: str, times: PassTimes) -> dict[str, float]:
    done = simulate_replica(requests_of(*load), LIMITS, times, policy)
    moments, tokens = done.records.moments, done.records.counts[:, PRODUCED]
    gaps, often = gaps_of(done.passes)
    first, last = moments[:, FIRST_TOKEN_S], moments[:, FINISHED_S]
    return figures(load.arrival_s, first, last, tokens, np.repeat(gaps, often.astype(np.int64)))


def of_log(log: Log) -> dict[str, float]:
    times = [np.array(each.token_s) for each in log.requests]
    arrival_s = np.array([each.arrival_s for each in log.requests])
    first, last = (np.array([each[i] for each in times]) for i in (0, -1))
    tokens = np.array([len(each) for each in times])
    return figures(arrival_s, first, last, tokens, np.concatenate([np.diff(each) for each in times]))


def figures(arrival_s: Floats, first: Floats, last: Floats, tokens: Ints, gaps: Floats) -> dict[str, float]:
    several = tokens > 1
    ttft, tpot = first - arrival_s, (last - first)[several] / (tokens[several] - 1)
    found = {"TTFT mean": float(ttft.mean()), "gap p99": float(np.quantile(gaps, 0.99))}
    for name, values in (("TTFT", ttft), ("TPOT", tpot)):
        found |= {f"{name} p{share}": float(np.percentile(values, share)) for share in (50, 99)}
    return found


def fitted(engine: Engine, passes: Sequence[Measured]) -> Calibration:
    return calibrate(engine.own, engine.accelerator, "none", passes, "this machine's engine")


def guessed_s(times: PassTimes, one: PassRecord) -> float:
    shape = np.array(one.shape, np.int64)
    return pass_cost(times, shape[:, 0], shape[:, 1], sum(one.logit_rows))[0]


def paces_of(times: PassTimes, passes: Sequence[PassRecord]) -> tuple[Floats, float]:
    """Measured over estimated seconds of a load's passes: (in each MOMENT_S of it, in all)."""
    guessed = np.array([guessed_s(times, each) for each in passes])
    begun, took = (np.array([getattr(each, name) for each in passes]) for name in ("started_s", "seconds"))
    until_next = np.diff(begun, append=begun[-1] + took[-1])
    took = np.where(until_next < took + IDLE_S, until_next, took)
    moment = (begun / MOMENT_S).astype(int)
    sums = [np.bincount(moment, each) for each in (took, guessed)]
    whole = float(took.sum() / guessed.sum())
    return np.divide(*sums, out=np.full(len(sums[0]), whole), where=sums[1] > 0), whole


@dataclass(frozen=True, slots=True)
class Paced:
    """An executor that only takes its time: what was estimated, at the pace of the moment."""

    times: PassTimes
    paces: Floats
    clock: Clock

    def run(self, pass_: Pass) -> PassOutcome:
        shape = np.array([(each.new, each.context) for each in pass_.spans], np.int64)
        logits = sum(each.logit_rows for each in pass_.spans)
        moment = min(int(self.clock.now() / MOMENT_S), len(self.paces) - 1)
        seconds = pass_cost(self.times, shape[:, 0], shape[:, 1], logits)[0] * float(self.paces[moment])
        tokens = {each.sequence: [0] for each in pass_.spans if each.logit_rows > 0}
        return PassOutcome(tokens, seconds=seconds)


def at_its_pace(load: Load, policy: str, times: PassTimes, paces: Floats) -> dict[str, float]:
    clock = VirtualClock()
    return of_log(driven(load, policy, LIMITS, Paced(times, paces, clock), clock))


def drift_of(before: Sequence[Measured], after: Sequence[Measured]) -> float:
    return float(np.median([b.seconds / a.seconds for a, b in zip(before, after, strict=True)]))


def capacity_of(engine: Engine, count: int, passes: Sequence[Measured]) -> float:
    """Requests a second that the engine ends where all are there from the start."""
    times = times_of(engine, fitted(engine, passes))
    load = load_of(count, np.inf, "load")
    return count / simulate_replica(requests_of(*load), LIMITS, times, "decode-first").ended_s


def measure(engine: Engine, count: int, share: float, rounds: int) -> tuple[dict[str, list[Pair]], float]:
    """({policy: a pair for each round}, requests a second)"""
    calibrating_passes(engine)  # warms up
    before = calibrating_passes(engine)
    rate = share * capacity_of(engine, count, before)
    load = load_of(count, rate, "load")
    found: dict[str, list[Pair]] = {policy: [] for policy in POLICIES}
    for number in range(rounds):
        for policy in POLICIES:
            log = served(engine, load, policy)
            after = calibrating_passes(engine)
            calibration = fitted(engine, [*before, *after])
            times = times_of(engine, calibration)
            paces, pace = paces_of(times, log.passes)
            pair = Pair(
                of_log(log),
                simulated(load, policy, times),
                at_its_pace(load, policy, times, paces),
                drift_of(before, after),
                pace,
                calibration,
                log.passes[-1].started_s,
            )
            found[policy].append(pair)
            before = after
            print(
                f"round {number + 1} {policy:14} {pair.took_s:5.1f} s, drift {pair.drift - 1:+.1%}, passes "
                f"{pair.pace - 1:+.1%}, p90 of the fit {calibration.p90_error:.1%} on {calibration.base}; "
                + ", ".join(f"{name} {error(pair, name):+.1%}" for name in GOALS),
                flush=True,
            )
    return found, rate


def error(pair: Pair, name: str) -> float:
    return pair.simulated[name] / pair.measured[name] - 1


def median(pairs: Sequence[Pair], name: str) -> tuple[float, float, float, float]:
    """(measured, simulated, error, error at each moment's pace) over the rounds."""
    return (
        float(np.median([each.measured[name] for each in pairs])),
        float(np.median([each.simulated[name] for each in pairs])),
        float(np.median([error(each, name) for each in pairs])),
        float(np.median([each.at_its_pace[name] / each.measured[name] - 1 for each in pairs])),
    )


def tables(found: dict[str, list[Pair]], about: str) -> str:
    heads = ("policy", "figure", "engine", "simulator", "error", "goal", "met", "at each moment's pace")
    lines = [about, "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for policy, pairs in found.items():
        for name, goal in GOALS.items():
            engine_s, simulated_s, off, at_its_pace = median(pairs, name)
            verdict = "yes" if abs(off) <= goal else "no"
            row = (policy, name, f"{1e3 * engine_s:.2f} ms", f"{1e3 * simulated_s:.2f} ms", f"{off:+.1%}")
            lines.append(f"| {' | '.join((*row, f'{goal:.0%}', verdict, f'{at_its_pace:+.1%}'))} |")
    lines += ["", "| by | engine, best first | simulator | same order |", "|---|---|---|---|"]
    for name in ORDERED:
        real, guessed = ({each: median(own, name)[i] for each, own in found.items()} for i in (0, 1))
        verdict = "yes" if same_order(real, guessed) else "no"
        lines.append(f"| {name} | {in_order(real)} | {in_order(guessed)} | {verdict} |")
    return "\n".join(lines)


def in_order(values: dict[str, float]) -> str:
    return ", ".join(f"{each} {1e3 * values[each]:.1f} ms" for each in sorted(values, key=values.__getitem__))


def same_order(real: dict[str, float], guessed: dict[str, float]) -> bool:
    """Of all pairs whose measured figures differ by more than ALIKE."""
    return all(
        guessed[one] < guessed[other]
        for one in real
        for other in real
        if real[one] * (1 + ALIKE) < real[other]
    )


def about_run(found: dict[str, list[Pair]], rate: float, asked: argparse.Namespace) -> str:
    pairs = [each for own in found.values() for each in own]
    drifts, paces = ([getattr(each, name) - 1 for each in pairs] for name in ("drift", "pace"))
    errors = [[each.calibration.median_error, each.calibration.p90_error] for each in pairs]
    middle, ninth = np.median(errors, axis=0)
    took_s = np.median([each.took_s for each in pairs])
    return (
        f"{cpu_name()}, threads: {asked.threads}. {asked.rounds} rounds of {asked.requests} requests for "
        f"each policy, {rate:.2f} a second ({asked.load:.0%} of what {SEQUENCES} sequences at once can "
        f"serve), about {took_s:.0f} s each. From the calibrating passes before a load to those after it, "
        f"the machine's speed drifted by {np.median(np.abs(drifts)):.1%} in the median, "
        f"{np.max(np.abs(drifts)):.1%} at most; all passes of a load together took {np.median(paces):+.1%} "
        f"beside their estimates ({min(paces):+.1%} to {max(paces):+.1%}). Error of the fits: median "
        f"{middle:.1%}, nine in ten below {ninth:.1%}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=float, default=0.6, help="share of what can be served")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--markdown", type=Path, help="a file with the tables' markers")
    asked = parser.parse_args()
    engine = open_engine(asked.threads)
    found, rate = measure(engine, asked.requests, asked.load, asked.rounds)
    text = tables(found, about_run(found, rate, asked))
    print(text)
    if asked.markdown:
        whole = asked.markdown.read_text(encoding="utf-8")
        asked.markdown.write_text(put_between_markers(whole, text, "bench/end_to_end.py"), encoding="utf-8")


if __name__ == "__main__":
    main()
