"""A simulated run made ready to be shown: its figures, and what a reader must know about them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twophase.calibration.estimate import Estimate
from twophase.cost.parallel import Plan
from twophase.hardware.accelerator import Accelerator
from twophase.meter.records import LoadRun, Target
from twophase.meter.summary import Summary
from twophase.report.bench_rows import simulated
from twophase.report.simulation_activity import Activity, activity_of
from twophase.report.simulation_summary import NO_LAG, full_height, summarise
from twophase.simulate.outcome import Run
from twophase.simulate.workload_arrays import Role
from twophase.units import duration, percent, plural
from twophase.workload.reuse import DEFINITION, reuse_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twophase.meter.goodput import Limit

BEGAN_S = 1.0  # of a kept run's clock: the meter takes a moment of 0 for never
SIMULATED = ", simulated"
KNOWN = {  # what pass times are made of
    "floor": "arithmetic alone: no machine is faster",
    "curves": "kernels' measured curves",
    "served": "shares of the peaks that engines reach, fitted to measured serving",
    "calibrated": "curves brought to measured passes",
}


@dataclass(frozen=True, slots=True)
class Simulation:
    """`how`: the preset or policy, the router, in the user's words."""

    run: Run
    model: str
    how: str
    summary: Summary
    activity: Activity
    open_loop: bool = True

    @property
    def pools(self) -> list[tuple[str, int]]:
        """(role and devices of each pool, its replicas)."""
        return [(named(each.accelerator, each.own.plan, each.role), each.replicas) for each in self.run.pools]

    @property
    def where(self) -> str:
        """2 × H100 SXM; 1 × prefill H100 SXM (TP4) and 3 × decode H100 SXM."""
        return listed(self.pools)

    @property
    def provenance(self) -> str:
        """What its pass times are, and how far off passes may be; by accelerator where they differ."""
        found: dict[str, dict[str, None]] = {}
        for each in self.run.replicas:
            found.setdefault(said_of(each.pool.estimate), {})[each.pool.accelerator.title] = None
        if len(found) == 1:
            return next(iter(found))
        return "; ".join(f"{' and '.join(titles)}: {said}" for said, titles in found.items())


def named(accelerator: Accelerator, plan: Plan, role: Role = "both") -> str:
    """prefill H100 SXM (TP4)."""
    sizes = "" if plan.devices == 1 else f" ({plan})"
    return f"{'' if role == 'both' else f'{role} '}{accelerator.title}{sizes}"


def listed(pools: "Sequence[tuple[str, int]]") -> str:
    return " and ".join(f"{number} × {name}" if number > 1 else name for name, number in pools)


def where_simulated(run: LoadRun) -> str:
    """The devices of a kept run that was simulated, as `record_of` says them; empty for measured ones."""
    return run.target.url.removesuffix(SIMULATED) if simulated(run) else ""


def said_of(own: Estimate) -> str:
    said = f"{own.provenance}: {KNOWN[own.provenance]}"
    low, high = own.interval
    if np.isfinite(high) and low < high:
        span = f"{low:.2f} to {high:.2f} times as long"
        said += (
            f"; too few passes to tell its error, assumed: {span}"
            if own.assumed
            else f"; four passes in five take {span}"
        )
    if own.extrapolated:
        said += "; extrapolated from another accelerator's"
    return said


def simulation_of(
    run: Run, model: str, how: str, slo: "Sequence[Limit]" = (), *, open_loop: bool = True
) -> Simulation:
    return Simulation(run, model, how, summarise(run, slo), activity_of(run), open_loop)


def notes(own: Simulation) -> list[str]:
    """The most important first."""
    run = own.run
    found = []
    if run.growth is not None:
        found.append(overload_line(own))
    refused = own.summary.of("rejected")
    if refused:
        found.append(f"{plural(refused, 'request')} can never be served: refused.")
    never = int(np.count_nonzero(np.isnan(run.arrival_s)))
    if never:
        found.append(f"{plural(never, 'later turn')} never came: the one before each was not done.")
    if run.late:
        found.append(f"{plural(run.late, 'request')} would have come later than the run was to last.")
    reuse = reuse_of(run.workload)
    if reuse is not None:
        found.append(
            f"An unlimited prefix cache would find {percent(reuse.share)} of the trace's blocks, "
            f"{percent(reuse.token_share)} of its prompt tokens ({DEFINITION})."
        )
    return [*found, *(f"{each[0].upper()}{each[1:]}." for each in run.notes)]


def overload_line(own: Simulation) -> str:
    return f"{own.run.growth}." if own.run.growth is not None else ""


def record_of(own: Simulation) -> LoadRun:
    """The head of a run as the meter keeps it, without its replies."""
    run = own.run
    pool = run.replicas[0].pool
    full = full_height(run)
    cut = own.summary.of("truncated")
    low, high = pool.estimate.interval
    return LoadRun(
        target=Target(url=own.where + SIMULATED, model=own.model, endpoint="completions"),
        began_at="simulated time",
        began_s=BEGAN_S,
        ended_s=BEGAN_S + run.ended_s,
        partial=f"stopped after {duration(run.ended_s)}, {plural(cut, 'request')} under way" if cut else "",
        replies=(),
        lag=NO_LAG,
        notes=tuple(notes(own)),
        facts=(
            ("kind", "simulation"),
            ("loop", "open" if own.open_loop else "closed"),
            ("gpu", pool.accelerator.name),
            ("policy", own.how),
            ("clock", pool.estimate.provenance),
            ("pass_interval", f"{low:g}..{high:g}" + (" (assumed)" if pool.estimate.assumed else "")),
        ),
        open_loop=own.open_loop,
        steady=() if full is None else (("", BEGAN_S + full[0], BEGAN_S + full[1]),),
        first_cohort=tuple(run.first_cohort.tolist()),
    )
