"""A run in figures: outcomes, latencies, throughput, goodput, and how wrong they may be."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twophase.meter.distribution import Distribution, distribution, weighted, weighted_mean
from twophase.meter.goodput import Goodput, Limit, goodput
from twophase.meter.latency import (
    Since,
    e2e_s,
    ended_s,
    events_per_read,
    gaps_s,
    in_flight,
    ntpot_s,
    queue_s,
    queue_share,
    role_lead_s,
    tokens_per_event,
    ttfa_s,
    ttft_s,
    visible_tokens,
)
from twophase.meter.load_law import LoadLaw, LoadPoint, fit_load
from twophase.meter.own_error import OwnError, own_error
from twophase.meter.records import LoadRun, Reply
from twophase.meter.steady import rates
from twophase.records import Outcome

OUTCOMES: tuple[Outcome, ...] = ("finished", "failed", "rejected", "truncated", "cancelled", "empty")


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of finished requests. From `since`; None where no request has it."""

    ttft: Distribution | None
    ttfa: Distribution | None  # to the first token after reasoning
    tpot: Distribution | None  # request-weighted
    tpot_token_weighted_s: float | None
    gap: Distribution | None
    e2e: Distribution | None
    ntpot: Distribution | None
    tokens_per_event: Distribution | None
    events_per_read: Distribution | None
    role_lead: Distribution | None
    queue: Distribution | None  # seconds, by the server's own word
    queue_share: Distribution | None


@dataclass(frozen=True, slots=True)
class Throughput:
    """Of finished requests, over a window of so many seconds."""

    window_s: float

    output_tokens_per_s: float
    input_tokens_per_s: float
    total_tokens_per_s: float
    requests_per_s: float
    output_tokens_per_s_per_gpu: float | None


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests on their way, as they were and not as they were asked for."""

    mean: float
    peak: int
    prefill_mean: float  # of them, before their first token
    asked_per_s: float | None  # by the plan's instants
    sent_per_s: float | None


@dataclass(frozen=True, slots=True)
class Tokens:
    prompt: int  # of finished requests
    output: float
    asked: int  # of output; 0: not known
    short: int  # finished requests that made fewer than asked for
    short_share: float  # of finished requests
    hidden: float  # counted by the server, never sent
    cached_share: float | None  # of prompt tokens, where the server tells
    sources: tuple[tuple[str, int], ...]  # how an event's tokens were counted, and in how many requests
    finish_reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """A run, or one level of it. Latencies leave the first cohort out where enough others are there."""

    point: str
    since: Since
    outcomes: tuple[tuple[Outcome, int], ...]
    reasons: tuple[tuple[Outcome, str, int], ...]  # of what did not finish, commonest first
    latencies: Latencies
    other_ttft: Distribution | None  # from the other start
    other_e2e: Distribution | None
    first_cohort: Latencies | None  # None: not told apart
    cohort_requests: int
    throughput: Throughput  # while the load stood at full height, where the run says when
    whole_throughput: Throughput  # from the first request sent to the last one closed
    in_flight: InFlight
    tokens: Tokens
    goodput: Goodput | None
    error: OwnError
    levels: tuple["Summary", ...] = ()  # of a sweep, in the order they were run
    law: LoadLaw | None = None  # of TPOT over the levels, where there are enough

    @property
    def requests(self) -> int:
        return sum(number for _, number in self.outcomes)

    def of(self, outcome: Outcome) -> int:
        return dict(self.outcomes)[outcome]


def summarise(run: LoadRun, slo: Sequence[Limit] = (), *, gpus: int | None = None) -> Summary:
    """In open loops latencies count from `due`. gpus: that serve the load, where the user tells."""
    points = list(dict.fromkeys(each.point for each in run.replies))
    since: Since = "due" if run.open_loop else "sent"
    levels: tuple[Summary, ...] = ()
    if len(points) > 1:
        levels = tuple(
            _summary([each for each in run.replies if each.point == point], run, slo, since, gpus, (), point)
            for point in points
        )
    return _summary(run.replies, run, slo, since, gpus, levels, points[0] if len(points) == 1 else "")


def _summary(
    replies: Sequence[Reply],
    run: LoadRun,
    slo: Sequence[Limit],
    since: Since,
    gpus: int | None,
    levels: tuple[Summary, ...],
    point: str,
) -> Summary:
    finished = [each for each in replies if each.outcome == "finished"]
    cohort = frozenset(run.first_cohort)
    steady = [each for each in finished if each.number not in cohort]
    apart = [each for each in finished if each.number in cohort]
    if len(steady) < len(apart):  # too few are left to stand for the run
        steady, apart = finished, []
    whole = whole_throughput(finished, measured_window_s(replies), gpus)
    steady_rates = steady_throughput(replies, run, gpus) or whole
    other: Since = "due" if since == "sent" else "sent"
    outcomes = Counter(each.outcome for each in replies)
    reasons = Counter((each.outcome, each.reason) for each in replies if each.outcome != "finished")
    own = latencies(steady, since)
    if run.gaps:
        own = replace(own, gap=kept_gaps(run))
    return Summary(
        point=point,
        since=since,
        outcomes=tuple((kind, outcomes[kind]) for kind in OUTCOMES),
        reasons=tuple((kind, reason, number) for (kind, reason), number in reasons.most_common()),
        latencies=own,
        other_ttft=distribution(ttft_s(each, other) for each in steady),
        other_e2e=distribution(e2e_s(each, other) for each in steady),
        first_cohort=latencies(apart, since) if apart else None,
        cohort_requests=len(apart),
        throughput=steady_rates,
        whole_throughput=whole,
        in_flight=flight(replies, whole.window_s),
        tokens=tokens(finished),
        goodput=goodput(replies, slo, since, steady_rates.requests_per_s) if slo else None,
        error=own_error(steady, since, run.lag),
        levels=levels,
        law=law_of(levels) if levels else None,
    )


def law_of(levels: Sequence[Summary]) -> LoadLaw | None:
    points = []
    for each in levels:
        tpot_s, rates, made = each.latencies.tpot_token_weighted_s, each.throughput, each.tokens
        later = rates.output_tokens_per_s - rates.requests_per_s  # tokens a second, less the first ones
        if tpot_s and later > 0:
            context = (made.prompt + made.output / 2) / each.of("finished")
            points.append(LoadPoint(later * tpot_s, tpot_s, context))  # by Little's law
    return fit_load(points) if points else None


def measured_window_s(replies: Sequence[Reply]) -> float:
    spans = in_flight(replies)
    return max(end for _, end in spans) - min(start for start, _ in spans) if spans else 0.0


def latencies(replies: Sequence[Reply], since: Since) -> Latencies:
    def over(time: Callable[[Reply], float | None]) -> Distribution | None:
        return distribution(map(time, replies))

    return Latencies(
        ttft=over(lambda each: ttft_s(each, since)),
        ttfa=over(lambda each: ttfa_s(each, since)),
        tpot=over(lambda each: each.tpot_s),
        tpot_token_weighted_s=weighted_mean(
            (each.tpot_s, visible_tokens(each) - each.first_tokens)
            for each in replies
            if each.tpot_s is not None
        ),
        gap=distribution(gap for each in replies for gap in gaps_s(each)),
        e2e=over(lambda each: e2e_s(each, since)),
        ntpot=over(lambda each: ntpot_s(each, since)),
        tokens_per_event=over(tokens_per_event),
        events_per_read=over(events_per_read),
        role_lead=over(role_lead_s),
        queue=over(queue_s),
        queue_share=over(queue_share),
    )


def kept_gaps(run: LoadRun) -> Distribution | None:
    """Of all requests, the first cohort's among them."""
    import numpy as np

    return weighted(*np.array(run.gaps, np.float64).reshape(-1, 2).T)


def whole_throughput(finished: Sequence[Reply], window_s: float, gpus: int | None) -> Throughput:
    window = window_s or float("inf")
    output = sum(each.output_tokens for each in finished) / window
    prompt = sum(each.prompt_tokens for each in finished) / window
    return _throughput(window_s, output, prompt, len(finished) / window, gpus)


def steady_throughput(replies: Sequence[Reply], run: LoadRun, gpus: int | None) -> Throughput | None:
    """Of all levels together, each by its own window; None where the run knows of none."""
    spans = {point: (start, end) for point, start, end in run.steady if end > start}
    points = [point for point in dict.fromkeys(each.point for each in replies) if point in spans]
    if not points:
        return None
    window_s = output = prompt = requests = 0.0
    for point in points:
        length = spans[point][1] - spans[point][0]
        found = rates([each for each in replies if each.point == point], spans[point])
        window_s += length
        output += found.output_tokens_per_s * length
        prompt += found.input_tokens_per_s * length
        requests += found.requests_per_s * length
    return _throughput(window_s, output / window_s, prompt / window_s, requests / window_s, gpus)


def _throughput(
    window_s: float, output: float, prompt: float, requests: float, gpus: int | None
) -> Throughput:
    return Throughput(window_s, output, prompt, output + prompt, requests, output / gpus if gpus else None)


def flight(replies: Sequence[Reply], window_s: float) -> InFlight:
    spans = in_flight(replies)
    window = window_s or float("inf")
    steps = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    now = peak = 0
    for _, step in steps:
        now += step
        peak = max(peak, now)
    prefilling = sum(
        (ended_s(each) if each.first_token_s is None else each.first_token_s) - each.sent_s
        for each in replies
        if each.sent_s > 0
    )
    return InFlight(
        mean=sum(end - start for start, end in spans) / window,
        peak=peak,
        prefill_mean=prefilling / window,
        asked_per_s=rate([each.due_s for each in replies]),
        sent_per_s=rate([each.sent_s for each in replies if each.sent_s > 0]),
    )


def rate(instants: Sequence[float]) -> float | None:
    """Events a second between the first and the last."""
    span = max(instants) - min(instants) if instants else 0.0
    return (len(instants) - 1) / span if span > 0 else None


def tokens(finished: Sequence[Reply]) -> Tokens:
    told = [each for each in finished if each.cached_tokens is not None]
    prompts = sum(each.prompt_tokens for each in told)
    return Tokens(
        prompt=sum(each.prompt_tokens for each in finished),
        output=sum(each.output_tokens for each in finished),
        asked=sum(each.asked_tokens for each in finished),
        short=(short := sum(each.short for each in finished)),
        short_share=short / len(finished) if finished else 0.0,
        hidden=sum(each.hidden_tokens for each in finished),
        cached_share=sum(each.cached_tokens or 0 for each in told) / prompts if prompts else None,
        sources=tuple(Counter(str(each.token_source) for each in finished).most_common()),
        finish_reasons=tuple(Counter(each.finish_reason or "none" for each in finished).most_common()),
    )
