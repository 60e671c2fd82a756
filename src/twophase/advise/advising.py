"""Every lever weighed for a deployment under a load: simulated before and after, and ranked by an aim.

own = advise(setup, load, "ttft")
for each in own.levers:
    print(each.title, each.effects["ttft"].gain, each.why)
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from twophase.advise.changes import CHANGES, Change, Now, RefusedError, twin_of
from twophase.advise.diagnosis import Phase
from twophase.advise.effects import Aim, Effect, effects, helps
from twophase.advise.figures import GOOD, Figures, Rates, Trial, crowded, part_of, tried
from twophase.advise.known import ACCEPTANCE, Known, known_levers
from twophase.advise.load import Load, crowd
from twophase.advise.point import Point, point_of
from twophase.advise.reasons import why
from twophase.advise.setup import Setup, pools_of, seats_of
from twophase.calibration.estimate import best_of
from twophase.errors import InputError
from twophase.hardware.cores import cores
from twophase.simulate.pools import Pool
from twophase.units import duration

Report = Callable[[str, float], None]
BUSY = 0.6  # of what can be served, where nobody says at which rate requests come
Method = Literal["simulated", "none"]


@dataclass(frozen=True, slots=True)
class Lever:
    """One change, taken alone. Effects are empty where it can't be pulled, and `why` says why not."""

    known: Known
    title: str
    helps: bool
    effects: Mapping[Aim, Effect]
    figures: Figures | None  # after
    why: str
    assumed: str
    price: Mapping[str, str]
    flags: Mapping[str, str]
    method: Method


@dataclass(frozen=True, slots=True)
class Advising:
    """`requests`: that were simulated at the load. `levers`: those that help by the aim first, best first."""

    setup: Setup
    load: Load
    aim: Aim
    slo: tuple[tuple[str, float], ...]
    before: Figures
    point: Point
    dominant: Phase  # takes most of the passes' time: at the load, or at full load where none was given
    full_prefill_share: float  # of the passes' time, where all requests come at once
    pool: Pool
    seats: int
    requests: int
    levers: tuple[Lever, ...]
    overload: str  # by how much more comes than is served, where the queue grows without bound
    notes: tuple[str, ...]


def advise(
    setup: Setup,
    load: Load,
    aim: Aim | None = None,
    slo: Sequence[tuple[str, float]] = (),
    *,
    shared: float = 0.5,
    acceptance: float = ACCEPTANCE,
    report: Report = lambda doing, share: None,
) -> Advising:
    """InputError where the model doesn't fit, or an aim of goodput has no limits."""
    if aim == "goodput" and not slo:
        raise InputError("--aim goodput counts requests within limits: give --slo ttft=500ms,tpot=30ms, too")
    report("simulating the deployment as it is", 0.0)
    if setup.provenance is None:  # one clock for both sides, whichever accelerator a lever takes
        setup = replace(setup, provenance=best_of(setup.accelerator, setup.preset.engine))
    notes = []
    pools = pools_of(setup, crowd(load, 1))
    full, at_most = crowded(setup, load, pools)
    anywhere = load.rate is None and load.clients is None and load.recorded is None
    if anywhere:
        most = at_most.requests
        if not most > 0:
            raise InputError("no such request can be served: its KV cache does not fit")
        load = replace(load, rate=BUSY * most)
        notes.append(
            f"No --rate was given: requests come at {BUSY:.0%} of what is served at most, {load.rate:.3g}/s"
        )
    most_good = aim == "goodput" or (aim is None and bool(slo))
    before = tried(setup, load, slo, most_good=most_good, most=at_most)
    now = standing(setup, load, before, shared, acceptance)
    busiest = point_of(full, load.prompt_tokens, load.output_tokens, now.pool.limits.budget)
    if aim is None:
        aim, said = usual_aim(bool(slo), before.figures.grows, busiest.dominant)
        notes.append(f"No --aim was given: levers are ranked by {aim}, as {said}")
    levers = all_judged(now, before.figures, aim, slo, report)
    return Advising(
        setup=setup,
        load=load,
        aim=aim,
        slo=tuple(slo),
        before=before.figures,
        point=now.point,
        # a rate that nobody gave must not decide: few requests make small batches, and so much of decode
        dominant=busiest.dominant if anywhere else now.point.dominant,
        full_prefill_share=busiest.prefill_share,
        pool=now.pool,
        seats=now.seats,
        requests=len(before.asked.workload),
        levers=tuple(sorted(levers, key=lambda each: rank(each, aim))),
        overload=overload_of(before),
        notes=(*notes, *noted(before)),
    )


def usual_aim(limited: bool, grows: bool, dominant: Phase) -> tuple[Aim, str]:
    """(aim where nobody gave one, why)."""
    if limited:
        return "goodput", "limits were given"
    if grows:
        return "throughput", "more comes than is served"
    return "ttft" if dominant == "prefill" else "itl", f"{dominant} takes most of the time of full passes"


def all_judged(
    now: Now, before: Figures, aim: Aim, slo: Sequence[tuple[str, float]], report: Report
) -> list[Lever]:
    """On all cores: the compiled loops let other threads run. One is enough for what isn't compiled."""
    listed = known_levers()
    with ThreadPoolExecutor(cores()) as threads:
        twins = {key: twin_of(key, now.setup.accelerator) for key in listed}
        pending = {
            key: threads.submit(judged, listed[key], CHANGES[key], now, before, aim, slo)
            for key in dict.fromkeys(twins.values())
        }
        try:
            levers: list[Lever] = []
            for key, known in listed.items():
                report(known.title, (len(levers) + 1) / (len(listed) + 1))
                own = pending[twins[key]].result()
                levers.append(own if twins[key] == key else called(own, known))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    return levers


def called(own: Lever, known: Known) -> Lever:
    """The same simulation as another lever's."""
    filled = known.filled({})
    return replace(own, known=known, title=known.title, price=filled.price, flags=filled.flags)


def rank(own: Lever, aim: Aim) -> tuple[bool, bool, float, float]:
    """Those that help first, of them those that ask for less last; by gain, then by throughput."""
    found = own.effects.get(aim)
    gain = -1.0 if found is None or found.gain is None else found.gain
    other = own.effects.get("throughput")
    second = 0.0 if other is None or other.gain is None else other.gain
    return not own.helps, own.known.kind == "workload", -gain, -second


def judged(
    known: Known,
    change: Callable[[Now], Change],
    now: Now,
    before: Figures,
    aim: Aim,
    slo: Sequence[tuple[str, float]],
) -> Lever:
    try:
        made = change(now)
        near = part_of(before)
        trial = tried(made.setup, made.load, slo, most_good=aim == "goodput", near=near)
    except (RefusedError, InputError) as refusal:
        blank = Change(now.setup, now.load)
        return _lever(known, blank, why=f"{str(refusal)[0].upper()}{str(refusal)[1:]}.")
    after = standing(made.setup, made.load, trial, now.shared, now.acceptance)
    found = effects(before, trial.figures, now.pool.estimate.interval, other_kernels=made.other_kernels)
    said = why(known.lever, now, after)
    if made.rival is not None:
        other = tried(made.rival, made.load, slo, most=Rates(0.0, 0.0, 0)).figures  # at the load is enough
        ttft = "a queue that grows without bound" if other.grows else f"TTFT {duration(other.ttft_s)}"
        devices = made.rival.devices
        said += f"; {devices} such devices as replicas of both give {ttft}, ITL {duration(other.itl_s)}"
    if trial.figures.grows and not before.grows:
        said = f"the queue would grow without bound; {said}"
    return replace(
        _lever(known, made, why=f"{said[0].upper()}{said[1:]}."),
        helps=helps(found, aim),
        effects=found,
        figures=trial.figures,
        method="simulated",
    )


def _lever(known: Known, made: Change, why: str) -> Lever:
    filled = known.filled(made.flags)
    return Lever(
        known=known,
        title=made.title or known.title,
        helps=False,
        effects={},
        figures=None,
        why=why,
        assumed=made.assumed,
        price=filled.price,
        flags=filled.flags,
        method="none",
    )


def standing(setup: Setup, load: Load, trial: Trial, shared: float, acceptance: float) -> Now:
    first, last = trial.pools[0], trial.pools[-1]
    prompt, output = load.prompt_tokens, load.output_tokens
    computed = max(1.0, prompt * (1 - trial.figures.cached_share))
    point = point_of(trial.run, computed, output, first.limits.budget)
    point = replace(point, prompt_tokens=prompt, context=prompt + output / 2)
    return Now(setup, load, last, point, seats_of(last, trial.asked.workload), shared, acceptance)


def noted(before: Trial) -> list[str]:
    found = [f"{each[0].upper()}{each[1:]}" for each in before.run.notes]
    if before.figures.most_good_per_s == 0:
        found.insert(0, f"Nowhere do {GOOD:.0%} of the requests meet the limits, not even one alone")
    return found


def overload_of(before: Trial) -> str:
    growth = before.run.growth
    return f"{growth}. TTFT depends on how long that goes on" if growth is not None else ""
