"""What text, page and comparison of a load run have in common: rows, facts and sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twophase.meter.distribution import Distribution
from twophase.meter.least_squares import Estimate
from twophase.meter.load_law import LoadLaw
from twophase.meter.own_error import OwnError
from twophase.meter.records import LoadRun
from twophase.meter.summary import Latencies, Summary
from twophase.units import count, duration, milliseconds, percent, significant

COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
NOTABLE_LEAD_S = 5e-3  # of a role chunk before the first token
NOTABLE_CACHED = 0.01
BURSTY = 1.2  # token events in a read
SAID_ABOVE = ("client-limited: ", "partial: ")  # notes of a run that a report has at its head
SHORT_RUN = 30  # finished requests below which a p99 is the maximum


@dataclass(frozen=True, slots=True)
class Row:
    """A metric's distribution; milliseconds where it is a time."""

    name: str
    times: bool
    of: Distribution

    def cells(self) -> list[str]:
        values = [getattr(self.of, column) for column in COLUMNS]
        return [milliseconds(each) if self.times else significant(each) for each in values]


def rows(own: Latencies) -> list[Row]:
    """Those that tell something: TTFA only after reasoning, tokens per event only where it is not one."""
    found = [
        ("TTFT", own.ttft),
        ("TTFA", own.ttfa if own.ttfa and own.ttft and own.ttfa.mean > own.ttft.mean * 1.001 else None),
        ("TPOT", own.tpot),
        ("gap", own.gap),
        ("E2E", own.e2e),
        ("NTPOT", own.ntpot),
        ("queue", own.queue),
    ]
    made = [Row(name, True, each) for name, each in found if each is not None]
    if own.tokens_per_event is not None and abs(own.tokens_per_event.mean - 1) > 0.005:
        made.append(Row("tokens per event", False, own.tokens_per_event))
    if own.queue_share is not None:
        made.append(Row("queue share of TTFT", False, own.queue_share))
    return made


def title(run: LoadRun) -> str:
    return f"{run.target.model or 'unnamed model'} at {run.target.url}"


def about(run: LoadRun) -> str:
    loop = "open loop" if run.open_loop else "closed loop"
    return f"{server(run)}, {loop}{'' if simulated(run) else f', began {run.began_at}'}"


def server(run: LoadRun) -> str:
    """Its kind and version as far as they are known, and the endpoint asked."""
    if simulated(run):
        return "simulation"
    facts = dict(run.facts)
    known = " ".join(facts[name] for name in ("kind", "version") if facts.get(name, "unknown") != "unknown")
    return ", ".join(filter(None, (known, run.target.endpoint)))


def simulated(run: LoadRun) -> bool:
    """Of `twophase simulate`: no server was asked, at no time of day, and no meter read it."""
    return ("kind", "simulation") in run.facts


def outcome_line(summary: Summary) -> str:
    others = [f"{count(number)} {kind}" for kind, number in summary.outcomes[1:] if number]
    good = f"{count(summary.of('finished'))} of {count(summary.requests)} requests finished"
    return f"{good}; {', '.join(others)}" if others else good


def flight_line(summary: Summary) -> str:
    own = summary.in_flight
    line = (
        f"{significant(own.mean)} in flight on average, {own.peak} at most, "
        f"{significant(own.prefill_mean)} of them before their first token"
    )
    if summary.since == "due" and own.asked_per_s and own.sent_per_s:
        line += f"; asked {significant(own.asked_per_s)}/s, sent {significant(own.sent_per_s)}/s"
    return line


def throughput_line(summary: Summary) -> str:
    own, whole = summary.throughput, summary.whole_throughput
    line = (
        f"{significant(own.output_tokens_per_s)} output tokens/s, "
        f"{significant(own.input_tokens_per_s)} input, {significant(own.total_tokens_per_s)} in all; "
        f"{significant(own.requests_per_s)} requests/s"
    )
    if own.output_tokens_per_s_per_gpu is not None:
        line += f"; {significant(own.output_tokens_per_s_per_gpu)} output tokens/s a GPU"
    if own == whole:
        return f"{line}; over {duration(own.window_s)}"
    return (
        f"{line}\n{duration(own.window_s)} of {duration(whole.window_s)} at full load; "
        f"start and end included: {significant(whole.output_tokens_per_s)} output tokens/s, "
        f"{significant(whole.requests_per_s)} requests/s"
    )


def pace_line(own: Latencies) -> str:
    """What one request's reader sees, with the wait and without; empty where no token came later."""
    if own.tpot is None or own.ntpot is None or not own.tpot.mean or not own.ntpot.mean:
        return ""
    return (
        f"a request gets {significant(1 / own.tpot.mean)} tokens/s after its first (1 / mean TPOT), "
        f"{significant(1 / own.ntpot.mean)} from start to end (1 / mean NTPOT)"
    )


def goodput_line(summary: Summary) -> str:
    own = summary.goodput
    if own is None:
        return ""
    limits = [
        f"{limit.metric} ≤ {duration(limit.seconds)} by {percent(met / own.requests if own.requests else 0)}"
        for limit, met in zip(own.slo, own.met, strict=True)
    ]
    line = (
        f"{percent(own.share)} of {count(own.requests)} requests, {significant(own.requests_per_s)}/s: "
        f"{', '.join(limits)}"
    )
    judged = any(limit.metric == "tpot" for limit in own.slo)
    if judged and own.without_tpot:
        line += f"; {count(own.without_tpot)} of a single token have no TPOT and miss its limit"
    return line


def law_line(own: LoadLaw | None) -> str:
    """The law of a sweep's levels; empty where there is none."""
    if own is None:
        return ""
    line = (
        f"TPOT = {estimate_ms(own.pass_s)} + {estimate_ms(own.sequence_s)} a sequence that decodes, over "
        f"{own.levels} levels of {count(own.context_tokens)} tokens of context"
    )
    return f"{line}; {'; '.join(own.poor)}" if own.poor else line


def estimate_ms(own: Estimate) -> str:
    high = "more" if own.high is None else milliseconds(own.high)
    return f"{milliseconds(own.value)} ms ({milliseconds(own.low)} to {high})"


def error_line(own: OwnError) -> str:
    if not own.lag.samples:
        return "No meter error: the times are the simulation's own"
    if own.ttft is None:
        return "Meter error unknown: no request finished with a first token"
    return (
        f"Meter error ≤ {duration(own.ttft.p99)} on TTFT p99, ≤ {duration(own.ttft.mean)} on its mean; "
        f"its loop ran {duration(own.lag.p99_s)} late at p99, on {significant(own.lag.cpu_share)} of a core"
    )


def notes(run: LoadRun, summary: Summary) -> list[str]:
    """What a reader must know before the figures are believed; the run's own notes last."""
    own = [each for each in run.notes if not each.startswith(SAID_ABOVE)]
    return [*_figure_notes(summary), *own]


def _figure_notes(summary: Summary) -> Iterable[str]:
    own, made = summary.latencies, summary.tokens
    finished = summary.of("finished")
    if finished and own.ttft is None and summary.cohort_requests < finished:
        yield "Replies came at once, not as streams: TTFT and TPOT need streaming."
    if 0 < finished < SHORT_RUN:
        yield f"Only {finished} requests finished: p99 is little else than the maximum."
    if made.cached_share is None and finished:
        yield "The server does not say how much of the prompts it found in its prefix cache."
    elif made.cached_share and made.cached_share > NOTABLE_CACHED:
        yield f"Prefix cache: {percent(made.cached_share)} of the prompt tokens were not computed."
    if own.role_lead and own.role_lead.p50 > NOTABLE_LEAD_S:
        yield (
            f"The server acknowledges a request {duration(own.role_lead.p50)} (median) before its first "
            "token: meters that take the role chunk for a token report that much less."
        )
    if own.events_per_read and own.events_per_read.mean > BURSTY:
        yield (
            f"Bursty: {significant(own.events_per_read.mean)} token events come in one read; "
            "gaps within it are 0."
        )
    sources = dict(made.sources)
    if sources.get("events"):
        yield (
            f"≈ {count(sources['events'])} of {count(finished)} requests have no token counts of the "
            "server's: an event counts as one token."
        )
    if made.short:
        yield (
            f"Short outputs: {percent(made.short_share)} of finished requests made fewer tokens than "
            f"asked for; all together {percent(made.output / made.asked)} of them."
        )
    if made.hidden:
        yield f"{count(made.hidden)} output tokens were counted by the server and never sent: not in TPOT."
    weighted = own.tpot_token_weighted_s
    if weighted and own.tpot and abs(weighted / own.tpot.mean - 1) > 0.05:
        yield f"TPOT weighted by tokens rather than requests is {duration(weighted)}."


def other_start(summary: Summary) -> list[Row]:
    """Open loops only: the same from the instant at which requests were really sent."""
    if summary.since == "sent":
        return []
    found = (("TTFT from sent", summary.other_ttft), ("E2E from sent", summary.other_e2e))
    return [Row(name, True, each) for name, each in found if each is not None]


def cohort_rows(summary: Summary) -> list[Row]:
    if summary.first_cohort is None:
        return []
    wanted = (
        ("TTFT, first round", summary.first_cohort.ttft),
        ("TPOT, first round", summary.first_cohort.tpot),
    )
    return [Row(name, True, each) for name, each in wanted if each is not None]


LEVEL_HEADS = (
    *("level\n", "finished\n", "in flight\nmean", "requests\n/s", "output\ntokens/s", "TTFT ms\np50"),
    *("TTFT ms\np99", "TPOT ms\np50", "TPOT ms\np99", "goodput\n"),
)


def level_cells(levels: Sequence[Summary]) -> list[list[str]]:
    def at(own: Distribution | None, name: str) -> str:
        return milliseconds(getattr(own, name)) if own else "–"

    return [
        [
            each.point or "–",
            f"{each.of('finished')}/{each.requests}",
            significant(each.in_flight.mean),
            significant(each.throughput.requests_per_s),
            significant(each.throughput.output_tokens_per_s),
            at(each.latencies.ttft, "p50"),
            at(each.latencies.ttft, "p99"),
            at(each.latencies.tpot, "p50"),
            at(each.latencies.tpot, "p99"),
            percent(each.goodput.share) if each.goodput else "–",
        ]
        for each in levels
    ]
