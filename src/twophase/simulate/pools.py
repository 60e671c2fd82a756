"""What serves: replicas of one kind, their limits, their KV pool as `fit` counts it, their pass times."""

from dataclasses import dataclass, replace

import numpy as np

from twophase.calibration.calibrated import Calibration
from twophase.calibration.estimate import Estimate, Provenance, estimate
from twophase.cost.deployment import Deployment, deployed
from twophase.cost.parallel import ALONE, Plan
from twophase.errors import InputError
from twophase.fit.capacity import concurrency, sequence_cost
from twophase.fit.fit import Fit, fit
from twophase.fit.serving import Serving
from twophase.hardware.accelerator import Accelerator
from twophase.model.catalogue import Model
from twophase.scheduler.request import Limits
from twophase.simulate.presets import Preset, limits_for
from twophase.simulate.workload_arrays import Role
from twophase.units import plural
from twophase.workload.workload import Workload

BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is None is the preset's, or follows from the accelerator's memory."""

    max_tokens: int | None = None  # rows of a pass
    max_sequences: int | None = None
    context_length: int | None = None
    block_size: int = BLOCK_SIZE
    blocks: int | None = None
    kv_pool_bytes: float | None = None  # of one device
    prefix_cache: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """`count` like engines: replicas, shares of their attention, microbatches of their pipeline stages."""

    role: Role
    count: int
    accelerator: Accelerator
    own: Deployment
    limits: Limits
    policy: str
    estimate: Estimate
    fit: Fit

    @property
    def devices(self) -> int:
        return self.count * self.own.plan.tp

    @property
    def replicas(self) -> int:
        """Each of whose stages has an engine under way."""
        return self.count // self.own.plan.pp

    @property
    def max_sequences(self) -> int:
        """Of a replica."""
        return self.limits.max_sequences * self.own.plan.pp

    @property
    def ranks(self) -> int:
        """Engines that go in step with one another."""
        return self.own.plan.pp * (1 if self.estimate.dealt is None else self.own.plan.dp)


def pool_of(
    model: Model,
    accelerator: Accelerator,
    workload: Workload,
    preset: Preset,
    *,
    policy: str,
    plan: Plan = ALONE,
    kv: str = "bf16",
    sizes: Sizes | None = None,
    role: Role = "both",
    count: int = 1,
    drafts: int = 0,
    provenance: Provenance | None = None,
    calibration: Calibration | None = None,
) -> Pool:
    """InputError where the model doesn't fit. Each of a plan's dp shares of the attention is an engine, and
    so is each microbatch of its stages."""
    sizes = sizes or Sizes()
    found = fit_of(model, accelerator, preset, plan, kv, sizes)
    blocks = sizes.blocks or blocks_of(found, workload)
    if blocks < 1:
        raise no_room(found, workload, model.spec.name, f"{accelerator.title} ({plan})")
    own = deployed(model, plan, kv)
    limits = limits_of(found, workload, blocks)
    return Pool(
        role=role,
        count=count * plan.dp * plan.pp,
        accelerator=accelerator,
        own=own,
        limits=limits,
        policy=policy,
        estimate=through_stages(
            estimate(
                own,
                accelerator,
                preset.engine,
                max_rows=found.settings.max_num_batched_tokens,
                max_sequences=limits.max_sequences * (1 + drafts),
                provenance=provenance,
                calibration=calibration,
            ),
            plan.pp,
        ),
        fit=found,
    )


def through_stages(made: Estimate, stages: int) -> Estimate:
    """Of one of the microbatches that are under way, as many as there are stages: it has a stage's roofs, and
    goes through all stages one after the other."""
    return replace(made, times=made.times._replace(roofs=made.times.roofs / stages))


def fit_of(model: Model, accelerator: Accelerator, preset: Preset, plan: Plan, kv: str, sizes: Sizes) -> Fit:
    """One replica's memory, as the preset's engine deals it out."""
    default_tokens, default_sequences = limits_for(preset, accelerator)
    return fit(
        model,
        accelerator,
        Serving(
            engine=preset.memory,
            plan=plan,
            kv=kv,
            max_model_len=sizes.context_length,
            max_num_batched_tokens=sizes.max_tokens or default_tokens,
            max_num_seqs=sizes.max_sequences or default_sequences,
            block_size=sizes.block_size,
            prefix_caching=sizes.prefix_cache,
            kv_pool_bytes=sizes.kv_pool_bytes,
        ),
    )


def limits_of(found: Fit, workload: Workload, blocks: int) -> Limits:
    """What bounds one engine's scheduler: microbatches share a replica's blocks and sequences."""
    settings, stages = found.settings, found.serving.plan.pp
    if settings.max_num_seqs < stages:
        raise InputError(
            f"at most {plural(settings.max_num_seqs, 'sequence')} at once, and {stages} pipeline stages: "
            "each has a microbatch of one sequence at least"
        )
    return Limits(
        blocks=max(1, blocks // stages),
        context_length=table_length(workload, settings.max_model_len),
        max_sequences=settings.max_num_seqs // stages,
        max_tokens=settings.max_num_batched_tokens,
        block_size=settings.block_size,
        prefix_cache=found.serving.prefix_caching,
    )


def no_room(found: Fit, workload: Workload, model: str, where: str) -> InputError:
    given = found.serving.kv_pool_bytes
    if given is None:
        return InputError(
            f"{model} leaves no room for a KV cache on {where}: `twophase fit` says what would; "
            "try --tp, --weights, or another --gpu"
        )
    needed = sequence_cost(found.layout, mean_length(found, workload))
    return InputError(
        f"--kv-memory of {given:,.0f} bytes holds not one block of {found.settings.block_size} tokens of "
        f"{model} on {where}: a request of the load's mean length takes {needed:,.0f} bytes of each device"
    )


def blocks_of(found: Fit, workload: Workload) -> int:
    """Of one replica's KV pool."""
    return kv_tokens(found, workload) // found.settings.block_size


def kv_tokens(found: Fit, workload: Workload) -> int:
    """Of one replica. Where layers keep windows or states, as many as sequences of the workload's mean length
    hold: what a token takes depends on the sequence.
    """
    if found.kv_pool_bytes <= 0:
        return 0
    pools = found.layout.pools
    if not found.layout.kinds or (len(pools) == 1 and [each.window for each in pools[0].groups] == [None]):
        return found.capacity.logged_tokens
    mean = mean_length(found, workload)
    return int(concurrency(found.layout, found.kv_pool_bytes, mean) * mean)


def mean_length(found: Fit, workload: Workload) -> int:
    """Tokens of the workload's sequences, as far as the engine takes them."""
    mean = int(np.mean(workload.prompt_tokens + workload.output_tokens))
    return max(1, min(mean, found.settings.max_model_len))


def table_length(workload: Workload, longest: int) -> int:
    """As long as any request that the model can take: block tables need not be longer."""
    asked = int(np.max(workload.prompt_tokens + workload.output_tokens, initial=2))
    return max(2, min(longest, asked))


def long_enough(pools: list[Pool], workload: Workload) -> list[Pool]:
    """The same with block tables as long as this workload's longest sequence."""
    return [
        replace(
            pool,
            limits=replace(
                pool.limits, context_length=table_length(workload, pool.fit.settings.max_model_len)
            ),
        )
        for pool in pools
    ]
