"""Replicas ready to be simulated, their pass times made once for each layout."""

from collections import OrderedDict
from dataclasses import replace

from twophase.calibration.estimate import Estimate, estimate
from twophase.cost.deployment import Deployment, deployed
from twophase.fit.fit import Fit
from twophase.plan.candidate import Kind, Layout
from twophase.plan.question import Question
from twophase.scheduler.request import Limits
from twophase.simulate.pools import Pool, Sizes, blocks_of, fit_of, limits_of, through_stages
from twophase.simulate.workload_arrays import Role

KEPT = 400  # layouts: some 300 kB each


class Setups:
    """Of one question, in one process."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.estimates: OrderedDict[Layout, Estimate] = OrderedDict()
        self.limits: dict[Kind, tuple[Fit, Limits] | None] = {}

    def pool(self, kind: Kind) -> Pool | None:
        """One engine: a replica has as many as stages. None where weights, reserve and one sequence are more
        than the memory."""
        if kind not in self.limits:
            self.limits[kind] = self.limits_of(kind)
        known = self.limits[kind]
        if known is None:
            return None
        found, limits = known
        return Pool(
            role="both",
            count=1,
            accelerator=self.question.accelerators[kind.layout.gpu],
            own=self.deployment(kind.layout),
            limits=limits,
            policy=self.question.preset.policy,
            estimate=self.estimate(kind.layout),
            fit=found,
        )

    def limits_of(self, kind: Kind) -> tuple[Fit, Limits] | None:
        found, workload = self.fit(kind), self.question.workload
        if not found.fits:
            return None
        return found, limits_of(found, workload, max(1, blocks_of(found, workload)))

    def pools(self, kind: Kind, count: int, role: Role) -> Pool:
        """So many replicas. RuntimeError where it doesn't fit: such a kind is no candidate."""
        found = self.pool(kind)
        if found is None:
            raise RuntimeError(f"{kind} does not fit, and was to be simulated")
        return replace(found, count=count * kind.layout.pp, role=role)

    def fit(self, kind: Kind) -> Fit:
        at, own = kind.layout, self.question
        sizes = Sizes(
            max_tokens=kind.max_tokens,
            max_sequences=kind.max_sequences,
            context_length=own.context_length,
            prefix_cache=own.prefix_cache,
        )
        return fit_of(own.models[at.weights], own.accelerators[at.gpu], own.preset, at.plan, at.kv, sizes)

    def deployment(self, at: Layout) -> Deployment:
        return deployed(self.question.models[at.weights], at.plan, at.kv)

    def estimate(self, at: Layout) -> Estimate:
        """Up to the largest options of the space: shorter tables begin alike."""
        if at in self.estimates:
            self.estimates.move_to_end(at)
            return self.estimates[at]
        own = self.question
        made = estimate(
            self.deployment(at),
            own.accelerators[at.gpu],
            own.preset.engine,
            max_rows=max(own.space.max_tokens),
            max_sequences=max(own.space.max_sequences),
            provenance=own.provenance,
            calibration=own.calibration,
        )
        made = through_stages(made, at.pp)
        self.estimates[at] = made
        if len(self.estimates) > KEPT:
            self.estimates.popitem(last=False)
        return made
