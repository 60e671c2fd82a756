"""A deployment with every switch that a lever can turn, and its simulation."""

from dataclasses import dataclass, field, replace

import numpy as np

from twophase.advise.known import REACHABLE
from twophase.calibration.calibrated import Calibration
from twophase.calibration.estimate import Provenance, estimate
from twophase.calibration.floors import floor_times
from twophase.cost import pass_times as columns
from twophase.cost.parallel import ALONE, Plan
from twophase.cost.pass_times import PassTimes
from twophase.hardware.accelerator import Accelerator
from twophase.model.catalogue import Model
from twophase.simulate.outcome import Run
from twophase.simulate.pools import Pool, Sizes, long_enough, pool_of, through_stages
from twophase.simulate.presets import Preset
from twophase.simulate.run import links_between
from twophase.simulate.running import Wire, run_pools
from twophase.simulate.workload_arrays import Role
from twophase.workload.workload import Workload

PROMPT = slice(columns.PROMPT_PASS_S, columns.DECODE_PASS_S)
DECODE = slice(columns.DECODE_PASS_S, columns.DECODE_TOKEN_S + 1)


@dataclass(frozen=True, slots=True)
class Kernels:
    """Whose kernels are taken to run at REACHABLE of their floor's speed."""

    prefill: bool = False
    decode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    model: Model
    accelerator: Accelerator
    preset: Preset
    policy: str
    plan: Plan = ALONE
    kv: str = "bf16"
    arithmetic: str | None = None  # operands of every multiply; None: as the weights' format allows
    sizes: Sizes = field(default_factory=Sizes)
    drafts: int = 0
    acceptance: float = 0.0
    replicas: int = 1
    split: tuple[int, int] | None = None  # replicas that prefill, and that decode
    kernels: Kernels = Kernels()
    provenance: Provenance | None = None  # of pass times; None: what came nearest to measured serving there
    calibration: Calibration | None = None

    @property
    def devices(self) -> int:
        return self.plan.devices * (sum(self.split) if self.split else self.replicas)

    @property
    def price_per_hour(self) -> float | None:
        """USD of all devices."""
        own = self.accelerator.price_per_hour
        return None if own is None else own * self.devices


def pools_of(own: Setup, workload: Workload) -> list[Pool]:
    """InputError where the model does not fit."""
    if own.split is None:
        return [_pool(own, workload, "both", own.replicas)]
    return [_pool(own, workload, "prefill", own.split[0]), _pool(own, workload, "decode", own.split[1])]


def _pool(own: Setup, workload: Workload, role: Role, count: int) -> Pool:
    made = pool_of(
        own.model,
        own.accelerator,
        workload,
        own.preset,
        policy=own.policy,
        plan=own.plan,
        kv=own.kv,
        sizes=own.sizes,
        role=role,
        count=count,
        drafts=own.drafts,
        provenance=own.provenance,
        calibration=own.calibration,
    )
    if own.arithmetic is not None:
        deployment = replace(made.own, arithmetic=own.arithmetic)
        found = estimate(
            deployment,
            own.accelerator,
            own.preset.engine,
            max_rows=made.limits.budget,
            max_sequences=made.limits.max_sequences * (1 + own.drafts),
            provenance=own.provenance,
            calibration=own.calibration,
        )
        made = replace(made, own=deployment, estimate=through_stages(found, own.plan.pp))
    if own.kernels != Kernels():
        times = made.estimate.times
        rows, sequences = len(times.rows_s) - 1, len(times.logits_s) - 1
        floor = floor_times(made.own, own.accelerator, rows, sequences)
        made = replace(made, estimate=replace(made.estimate, times=reached(times, floor, own.kernels)))
    return made


def reached(times: PassTimes, floor: PassTimes, kernels: Kernels) -> PassTimes:
    """Where passes are slower than REACHABLE of the floor's speed, that."""
    mixers = times.mixers.copy()
    rows_s, decode_rows_s = times.rows_s, times.decode_rows_s
    if kernels.prefill:
        mixers[:, columns.PROMPT_FULL_ROWS] = 0.0  # such kernels split their work until it fills the machine
        mixers[:, PROMPT] = np.minimum(mixers[:, PROMPT], floor.mixers[:, PROMPT] / REACHABLE)
        rows_s = np.minimum(rows_s, floor.rows_s / REACHABLE)
    if kernels.decode:
        mixers[:, DECODE] = np.minimum(mixers[:, DECODE], floor.mixers[:, DECODE] / REACHABLE)
        decode_rows_s = np.minimum(decode_rows_s, floor.decode_rows_s / REACHABLE)
    return times._replace(rows_s=rows_s, decode_rows_s=decode_rows_s, mixers=mixers)


def served(own: Setup, pools: list[Pool], workload: Workload) -> Run:
    """The same on any machine."""
    pools = long_enough(pools, workload)
    wire = None if own.split is None else Wire(links_between(own.accelerator, own.plan), overlap=True)
    return run_pools(
        pools,
        workload,
        router="least-loaded" if sum(pool.count for pool in pools) > 1 else "round-robin",
        wire=wire,
        drafts=own.drafts,
        acceptance=own.acceptance,
    )


def seats_of(pool: Pool, workload: Workload, written: float = 1.0) -> int:
    """Sequences of the workload's mean length that all replicas of the pool serve at once, when such a share
    of their outputs is written."""
    mean = float(np.mean(workload.prompt_tokens + written * workload.output_tokens))
    held = pool.limits.blocks * pool.limits.block_size / mean
    return max(1, int(min(held, pool.limits.max_sequences))) * pool.count
