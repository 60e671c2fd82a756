"""Measure a server's curves over the wire: what `curves` plans, sent by the meter's own load loop."""

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import monotonic

from twophase.meter.capabilities import Asked, Server, base_url, find_server
from twophase.meter.curves import Ask, Curves, Report, measure_curves
from twophase.meter.exchange import Pool, fetch
from twophase.meter.lag import lag_of
from twophase.meter.level import Level, Limits
from twophase.meter.load import Measured, run_level
from twophase.meter.prompts import Synthetic, Talk
from twophase.meter.quiet import interrupts
from twophase.meter.records import LoadRun, Reply, Target
from twophase.meter.server_kind import listed_models
from twophase.workload.lengths import Lengths


@dataclass(frozen=True, slots=True)
class CurvePlan:
    asked: Asked
    budget_s: float
    longest_prompt: int | None
    most_batch: int
    seed: str


@dataclass(slots=True)
class Sender:
    """Sends asks one level at a time, and keeps what all of them tell of the meter itself."""

    pool: Pool
    server: Server
    plan: CurvePlan
    loop: asyncio.AbstractEventLoop
    stops: int = 0  # how often the user asked to end it
    sent: int = 0
    partial: str = ""
    replies: list[Reply] = field(default_factory=list)
    lags: "array[float]" = field(default_factory=lambda: array("d"))
    cpu_share: float = 0.0

    def stop(self) -> None:
        self.stops += 1

    def measure(self, asks: Sequence[Ask], concurrency: int) -> Sequence[Reply]:
        """From the planning thread; nothing once the run has ended early."""
        if self.stops or self.partial:
            self.partial = self.partial or "interrupted"
            return ()
        done = asyncio.run_coroutine_threadsafe(self.level(asks, concurrency), self.loop).result()
        self.replies += done.replies
        self.lags.extend(done.lags)
        self.cpu_share = max(self.cpu_share, done.cpu_share)
        self.partial = done.partial
        return done.replies

    async def level(self, asks: Sequence[Ask], concurrency: int) -> Measured:
        first = self.sent
        self.sent += len(asks)

        def recipe(number: int) -> Talk:
            own = asks[number - first]
            sizes = (Lengths("fixed", own.prompt_tokens), Lengths("fixed", own.output_tokens))
            return Synthetic(self.plan.seed, self.server.calibration, *sizes)(number)

        level = Level(
            recipe,
            self.server.dialect,
            point=asks[0].point,
            first=first,
            sessions=len(asks),
            concurrency=concurrency,
        )
        limits = Limits(timeout_s=self.plan.asked.timeout_s)
        return await run_level(self.pool, self.server.target, level, limits, stops=lambda: self.stops)


async def measure_server(plan: CurvePlan, report: Report) -> tuple[LoadRun, Curves]:
    """InputError where nobody answers. Ctrl-C ends it with what was measured so far."""
    pool = Pool()
    try:
        report("looking at the server", 0.0)
        began_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        asked, unlisted = await as_listed(pool, plan.asked)
        server = await find_server(pool, asked)
        sender = Sender(pool, server, plan, asyncio.get_running_loop())
        began_s = monotonic()
        with interrupts(sender.stop):
            curves = await asyncio.to_thread(
                measure_curves,
                sender.measure,
                budget_s=plan.budget_s,
                window_tokens=server.longest,
                longest_prompt=plan.longest_prompt,
                most_batch=plan.most_batch,
                report=report,
            )
    finally:
        await pool.close()
    run = LoadRun(
        target=server.target,
        began_at=began_at,
        began_s=began_s,
        ended_s=monotonic(),
        partial=sender.partial,
        replies=tuple(sender.replies),
        lag=lag_of(sender.lags, sender.cpu_share, sender.replies),
        notes=(*unlisted, *server.notes),
        facts=(*server.facts, ("loop", "curves")),
    )
    return run, curves


async def as_listed(pool: Pool, asked: Asked) -> tuple[Asked, tuple[str, ...]]:
    """A model that the server does not list is a name for its floors: the server is asked for its own."""
    if asked.model is None:
        return asked, ()
    target = Target(base_url(asked.url), asked.model, "chat", asked.headers, None, asked.verify_tls)
    models = await fetch(pool, target, "GET", "/v1/models", timeout_s=min(asked.timeout_s, 30.0))
    listed = [entry["id"] for entry in listed_models(models)]
    if not listed or asked.model in listed:
        return asked, ()
    note = f"The server does not list {asked.model}: it was asked for {listed[0]}."
    return replace(asked, model=None), (note,)
