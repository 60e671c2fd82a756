"""Pools whose passes take round times, without a model's arithmetic: what comes out is computed by hand."""

import numpy as np

from twophase.calibration.estimate import Estimate
from twophase.cost.dealt import Dealt
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.cost.pass_times import COLUMNS, PassTimes
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.scheduler.request import Limits
from twophase.simulate.pools import Pool
from twophase.simulate.workload_arrays import Role
from twophase.workload.workload import Workload

PREFILL_S, DECODE_S = 1.0, 0.125  # of a pass, whatever is in it


def plain_times(rows: int, sequences: int) -> PassTimes:
    none = np.zeros(rows + 1)
    logits = np.zeros(sequences + 1)
    return PassTimes(
        *(np.full(rows + 1, PREFILL_S), np.full(rows + 1, DECODE_S), logits, np.zeros((1, COLUMNS))),
        *(none, none, logits, logits, np.array([1.0, 1.0])),
    )


def pool(
    role: Role = "both",
    count: int = 1,
    *,
    limits: Limits | None = None,
    times: PassTimes | None = None,
    policy: str = "decode-first",
    ranks: int = 1,
    dealt: Dealt | None = None,
    stages: int = 1,
) -> Pool:
    """`count` groups of `ranks` that go in step where `dealt` is given, or of microbatches of `stages`."""
    limits = limits or Limits(blocks=1000, context_length=2000, max_sequences=8, max_tokens=500)
    times = times or plain_times(limits.budget, limits.max_sequences)
    model = load_model("llama-3.1-8b")
    return Pool(
        role=role,
        count=count * ranks * stages,
        accelerator=load_accelerator("h100-sxm"),
        own=Deployment(model.spec, model.storage, plan=Plan(ep=ranks, dp=ranks, pp=stages)),
        limits=limits,
        policy=policy,
        estimate=Estimate(times, "floor", (1.0, 1.0), dealt=dealt),
        fit=None,  # type: ignore[arg-type]  # nothing was fitted
    )


def workload(*rows: tuple[float, int, int]) -> Workload:
    """(arrival, prompt, output) of each."""
    columns = list(zip(*rows, strict=True))
    return Workload(np.array(columns[0], np.float64), np.array(columns[1]), np.array(columns[2]))
