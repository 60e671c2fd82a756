"""A first guess at latency, without simulation: the steady state of as many clients as give the rate.

It only orders what is to be simulated; nothing is cut by it.
"""

from collections.abc import Sequence

import numpy as np

from twophase.plan.candidate import Kind
from twophase.plan.setups import Setups
from twophase.simulate.steady import passes_of, queueing_of
from twophase.simulate.steady_loop import Load, solve

# Queueing is fitted to measured serving, which an engine without host overheads has none of: this one's rules
# are nearest to its own, and the guess orders alike
UNMEASURED = {"none": "vllm"}
CLIENTS = np.geomspace(1, 2048, 24)  # of one engine


def e2e_guess_s(setups: Setups, kind: Kind, counts: Sequence[int]) -> tuple[float, ...]:
    """Mean seconds of a request, by the number of replicas; infinity where they can't keep up."""
    pool, workload = setups.pool(kind), setups.question.workload
    if pool is None or not len(workload):
        return (float("inf"),) * len(counts)
    prompt, output = float(np.mean(workload.prompt_tokens)), float(np.mean(workload.output_tokens))
    ones = np.ones_like(CLIENTS)
    held = max(1.0, pool.limits.blocks * pool.limits.block_size / (prompt + output / 2))
    load = Load(
        prompt=prompt * ones,
        output=output * ones,
        clients=CLIENTS,
        prompters=CLIENTS,
        held=min(held, pool.limits.max_sequences) * ones,
        chunk=pool.limits.budget * ones,
        apart=0 * ones,
        first=0 * ones,
        accepted=ones,
    )
    passes = passes_of(pool.estimate.times)
    engine = setups.question.preset.engine
    found = solve(passes, passes, load, queueing_of(UNMEASURED.get(engine, engine)))
    whole = found.ttft_s + np.maximum(output - 1, 0) * found.tpot_s
    rates = np.maximum.accumulate(CLIENTS / whole)
    asked = workload.rate / (kind.layout.pp * np.asarray(counts, np.float64))
    return tuple(np.where(asked < rates[-1], np.interp(asked, rates, whole), np.inf).tolist())
