"""A whole run: find the server out, warm it up, run one level or many, and say what a reader must know."""

from array import array
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic

from twophase.errors import InputError
from twophase.meter.calibration import refined
from twophase.meter.capabilities import Server, find_server, shown
from twophase.meter.exchange import Pool
from twophase.meter.goodput import meets
from twophase.meter.lag import lag_notes, lag_of
from twophase.meter.latency import Since
from twophase.meter.level import Level, Progress
from twophase.meter.load import run_level
from twophase.meter.measured import Measured
from twophase.meter.plan import Plan, level_of, require_room, warm_up_of, workers_for
from twophase.meter.prompts import texts_of
from twophase.meter.records import LoadRun, Reply
from twophase.meter.steady import rates, window_of
from twophase.meter.sweep import Step, next_load
from twophase.workload.closed import MOST_SPREAD_S

Show = Callable[[str, Progress], None]  # what is running, and how far it has come


async def bench(plan: Plan, show: Show | None = None, count: Callable[[str], int] | None = None) -> LoadRun:
    """Everything measured, as far as it came. InputError where there is nothing to measure."""
    if plan.ray:
        from twophase.meter.ray_workers import connected

        connected(plan.ray)  # or not, before anything is measured
    pool = Pool()
    try:
        began_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        server = await find_server(pool, plan.asked, count)
        require_room(plan, server)
        began_s = monotonic()
        warmed = await warm_up(pool, plan, server, show)
        levels: list[tuple[Level, Measured]] = []
        if warmed is None or not warmed.partial:
            server = server if warmed is None else better_known(plan, server, warmed)
            levels = await measure(pool, plan, server, warmed, show)
    finally:
        await pool.close()
    last = levels[-1][1] if levels else warmed
    return run_of(plan, server, began_at, began_s, levels, last.partial if last else "")


async def warm_up(pool: Pool, plan: Plan, server: Server, show: Show | None) -> Measured | None:
    level = warm_up_of(plan, server)
    if level is None:
        return None
    done = await run_level(pool, server.target, level, plan.limits, show=shower(show, level))
    failed = [reply for reply in done.replies if reply.outcome in ("failed", "rejected", "empty")]
    if failed and len(failed) == len(done.replies) and not done.partial:
        url = shown(server.target.url)
        raise InputError(f"{url} fails on every warm-up request: {failed[0].outcome}, {failed[0].reason}")
    return done


def better_known(plan: Plan, server: Server, warmed: Measured) -> Server:
    """With what a word costs in the prompts of the warm-up, which are many times as long as the probes."""
    level = warm_up_of(plan, server)
    finished = [reply for reply in warmed.replies if reply.outcome == "finished"]
    if level is None:
        return server
    talks = [level.recipe(reply.number) for reply in finished]
    words = sum(len(text.split()) for talk in talks for text in texts_of(talk))
    tokens = sum(reply.prompt_tokens for reply in finished)
    return replace(server, calibration=refined(server.calibration, words, tokens, len(finished)))


async def measure(
    pool: Pool, plan: Plan, server: Server, warmed: Measured | None, show: Show | None
) -> list[tuple[Level, Measured]]:
    """The levels, one after the other."""
    load = plan.arrivals.rate if plan.arrivals else float(plan.concurrency or 1)
    times = [e2e for reply in warmed.replies if (e2e := e2e_of(reply)) is not None] if warmed else []
    request_s = min(sum(times) / len(times), MOST_SPREAD_S) if times else 0.0
    done: list[tuple[Level, Measured]] = []
    steps: list[Step] = []
    following: float | None = load
    while following is not None:
        first = 1 + max(
            (reply.number // plan.turns for _, each in done for reply in each.replies), default=-1
        )
        level = level_of(plan, server, following, first, request_s)
        rate = following if plan.arrivals else 0.0
        workers = workers_for(plan.workers, level.concurrency or 0, rate)
        workers = min(workers, level.concurrency or workers)  # one without a stream would end at once
        measured = await run_by(pool, plan, server, level, workers, show)
        done.append((level, measured))
        steps.append(step_of(plan, level, measured, following))
        following = next_load(steps, load, plan.arrivals is None) if plan.sweep else None
    return done


async def run_by(
    pool: Pool, plan: Plan, server: Server, level: Level, workers: int, show: Show | None
) -> Measured:
    """One level in this process, in several of this machine, or on a cluster's."""
    if plan.ray:
        from twophase.meter.ray_workers import connected, run_ray, workers_on

        ray = connected(plan.ray)
        return await run_ray(ray, server.target, level, plan.limits, workers_on(ray, plan.workers, level))
    if workers > 1:
        from twophase.meter.workers import run_workers

        return await run_workers(server.target, level, plan.limits, workers, shower(show, level))
    return await run_level(pool, server.target, level, plan.limits, show=shower(show, level))


def step_of(plan: Plan, level: Level, measured: Measured, load: float) -> Step:
    replies = measured.replies
    reached = rates(replies, window_of(replies, measured.full_s, measured.dry_s))
    since: Since = "due" if level.open_loop else "sent"
    good = None
    if plan.slo:
        met = sum(all(meets(reply, limit, since) for limit in plan.slo) for reply in replies)
        good = met / max(len(replies), 1)
    served = None
    if level.open_loop and len(replies) > 1:
        asked = max(reply.due_s for reply in replies) - min(reply.due_s for reply in replies)
        ends = sorted(reply.closed_s for reply in replies if reply.closed_s is not None)
        served = asked / (ends[-1] - ends[0]) if len(ends) == len(replies) and ends[-1] > ends[0] else 0.0
    return Step(load, reached.output_tokens_per_s, served, good, bool(measured.partial))


def run_of(
    plan: Plan,
    server: Server,
    began_at: str,
    began_s: float,
    done: list[tuple[Level, Measured]],
    partial: str,
) -> LoadRun:
    replies = tuple(reply for _, each in done for reply in each.replies)
    lags = array("d")
    for _, each in done:
        lags.extend(each.lags)
    lag = lag_of(lags, max((each.cpu_share for _, each in done), default=0.0), replies)
    notes = [*server.notes, *(plan.trace.notes if plan.trace is not None else ())]
    notes += [f"{level.point}: {note}" for level, each in done for note in each.notes]
    notes += lag_notes(lag, replies)
    if plan.dataset is not None:
        notes.append(
            "prompts of a dataset go out as they are: a prefix cache may know them from earlier runs"
        )
    if partial:
        notes.append(f"partial: {partial}")
    steady = [
        (level.point, *window_of(each.replies, each.full_s, each.dry_s))
        for level, each in done
        if each.replies
    ]
    return LoadRun(
        target=server.target,
        began_at=began_at,
        began_s=done[0][1].began_s if done else began_s,
        ended_s=done[-1][1].ended_s if done else monotonic(),
        partial=partial,
        replies=replies,
        lag=lag,
        notes=tuple(dict.fromkeys(notes)),
        facts=(*server.facts, ("loop", "open" if plan.open_loop else "closed")),
        open_loop=plan.open_loop,
        first_cohort=tuple(number for _, each in done for number in each.first_cohort),
        steady=tuple(steady),
    )


def shower(show: Show | None, level: Level) -> Callable[[Progress], None] | None:
    return None if show is None else lambda progress: show(level.point, progress)


def e2e_of(reply: Reply) -> float | None:
    if reply.outcome != "finished" or reply.last_token_s is None:
        return None
    return reply.last_token_s - reply.sent_s
