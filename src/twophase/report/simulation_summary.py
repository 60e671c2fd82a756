"""A simulated run in the figures of a measured one, from arrays: no object of each request or token."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError
from twophase.meter.distribution import Distribution, distribution, weighted
from twophase.meter.goodput import Goodput, Limit
from twophase.meter.own_error import OwnError
from twophase.meter.records import Lag
from twophase.meter.summary import InFlight, Latencies, Summary, Throughput, Tokens
from twophase.records import Outcome
from twophase.simulate.books import CACHED, FINISHED, FIRST_TOKEN_S, OUTCOME, REJECTED, TRUNCATED
from twophase.simulate.outcome import Run
from twophase.simulate.refusals import refusals

Floats = NDArray[np.float64]
Marked = NDArray[np.bool_]
JUDGED = ("ttft", "ttfa", "tpot", "e2e", "ntpot")  # by limits on a request
NO_LAG = Lag(samples=0, mean_s=0.0, p99_s=0.0, max_s=0.0, cpu_share=0.0, dispatch_p99_s=0.0)


def summarise(run: Run, slo: Sequence[Limit] = ()) -> Summary:
    """As the meter's: latencies of finished requests, from the moment at which each was due; a closed loop's
    first cohort apart, but for gaps."""
    kept = steady_requests(run)
    apart = int(np.count_nonzero(~kept))
    steady, whole = throughputs(run)
    return Summary(
        point="",
        since="due",
        outcomes=outcomes(run),
        reasons=tuple(("rejected", reason, number) for reason, number in refusals(run)),
        latencies=replace(latencies(run, kept), gap=weighted(*run.gaps_s)),
        other_ttft=None,
        other_e2e=None,
        first_cohort=latencies(run, ~kept) if apart else None,
        cohort_requests=apart,
        throughput=steady,
        whole_throughput=whole,
        in_flight=flight(run, whole.window_s),
        tokens=tokens(run),
        goodput=goodput(run, slo, steady.requests_per_s) if slo else None,
        error=OwnError(None, None, None, None, NO_LAG, ""),
    )


def steady_requests(run: Run) -> Marked:
    """Of the finished requests: all but a closed loop's first cohort, where enough are left without it."""
    kept = ~np.isin(run.finished, run.first_cohort)
    few = np.count_nonzero(kept) < np.count_nonzero(~kept)
    return np.ones_like(kept) if few else kept


def latencies(run: Run, kept: Marked) -> Latencies:
    """Of those finished requests. Without gaps: passes do not tell whose they are."""
    ttft, e2e, queue = run.ttft_s[kept], run.e2e_s[kept], run.queue_s[kept]
    output, tpot = run.output_tokens[kept].astype(np.float64), run.tpot_s[kept[run.output_tokens > 1]]
    return Latencies(
        ttft=of(ttft),
        ttfa=None,
        tpot=of(tpot),
        tpot_token_weighted_s=token_weighted(tpot, output),
        gap=None,
        e2e=of(e2e),
        ntpot=of(e2e / np.maximum(output, 1)),
        tokens_per_event=None,
        events_per_read=None,
        role_lead=None,
        queue=of(queue),
        queue_share=of(queue / np.maximum(ttft, 1e-12)),
    )


def of(values: Floats) -> Distribution | None:
    return distribution(values)


def token_weighted(tpot: Floats, output: Floats) -> float | None:
    later = output[output > 1] - 1
    return float(np.sum(tpot * later) / later.sum()) if later.size else None


def outcomes(run: Run) -> tuple[tuple[Outcome, int], ...]:
    """Of those who came before the end."""
    counts = run.records.counts[:, OUTCOME]
    found: dict[Outcome, int] = {
        **{"finished": FINISHED, "failed": -1, "rejected": REJECTED, "truncated": TRUNCATED},
        **{"cancelled": -1, "empty": -1},
    }
    return tuple((name, int(np.count_nonzero(counts == code))) for name, code in found.items())


def throughputs(run: Run) -> tuple[Throughput, Throughput]:
    """(while the load stood at full height, from the first to the last token)."""
    if not run.finished.size:
        nothing = Throughput(0.0, 0.0, 0.0, 0.0, 0.0, None)
        return nothing, nothing
    arrived = run.arrival_s[run.finished]
    first, ended = arrived + run.ttft_s, arrived + run.e2e_s
    whole = _throughput(run, 1.0, 1.0, float(ended.max() - np.nanmin(run.arrival_s)))
    full = full_height(run)
    if full is None:
        return whole, whole
    return _throughput(run, share(arrived, ended, full), share(first, ended, full), full[1] - full[0]), whole


def full_height(run: Run) -> tuple[float, float] | None:
    """From the first request, in a closed loop from the last client's first one, to the last that came; None
    where that is no longer than half a request."""
    came = run.arrival_s[~np.isnan(run.arrival_s) & (run.arrival_s <= run.ended_s)]
    if not came.size or not run.finished.size:
        return None
    begin = float(np.max(run.arrival_s[run.first_cohort], initial=came.min()))
    last = float(came.max())
    return (begin, last) if last - begin > float(np.max(run.e2e_s)) / 2 else None


def share(begins: Floats, ends: Floats, window: tuple[float, float]) -> Floats:
    """Of each span, that lies in the window; of a moment, all or nothing."""
    low, high = window
    within = np.minimum(ends, high) - np.maximum(begins, low)
    parts = np.clip(within / np.maximum(ends - begins, 1e-12), 0, 1)
    return np.where(ends > begins, parts, (begins >= low) & (begins <= high))


def _throughput(run: Run, inside: Floats | float, streamed: Floats | float, window: float) -> Throughput:
    """`inside`: the share of each request, `streamed`: of its tokens, that lies in the window."""
    if window <= 0:
        return Throughput(0.0, 0.0, 0.0, 0.0, 0.0, None)
    prompts = run.workload.prompt_tokens[run.finished]
    output = float(np.sum(run.output_tokens * streamed)) / window
    prompt = float(np.sum(prompts * inside)) / window
    requests = float(np.sum(np.ones(len(prompts)) * inside)) / window
    return Throughput(window, output, prompt, output + prompt, requests, output / max(run.devices, 1))


def flight(run: Run, window: float) -> InFlight:
    came = np.flatnonzero(~np.isnan(run.arrival_s) & (run.arrival_s <= run.ended_s))
    begins = run.arrival_s[came]
    ends = np.where(np.isnan(run.ends_s[came]), run.ended_s, run.ends_s[came])
    firsts = run.records.moments[came, FIRST_TOKEN_S]
    firsts = np.where(np.isnan(firsts), run.ended_s, firsts)
    steps = np.concatenate([begins, ends])
    order = np.lexsort((np.concatenate([np.ones(len(came)), -np.ones(len(came))]), steps))
    now = np.cumsum(np.concatenate([np.ones(len(came)), -np.ones(len(came))])[order])
    lasted = window or float("inf")
    between = float(begins.max() - begins.min()) if len(came) > 1 else 0.0
    rate = (len(came) - 1) / between if between > 0 else None
    return InFlight(
        mean=float(np.sum(ends - begins)) / lasted,
        peak=int(now.max(initial=0)),
        prefill_mean=float(np.sum(firsts - begins)) / lasted,
        asked_per_s=rate,
        sent_per_s=rate,
    )


def tokens(run: Run) -> Tokens:
    rows = run.finished
    prompts = int(run.workload.prompt_tokens[rows].sum())
    cached = int(run.records.counts[rows, CACHED].sum())
    return Tokens(
        prompt=prompts,
        output=float(run.output_tokens.sum()),
        asked=int(run.workload.output_tokens[rows].sum()),
        short=0,
        short_share=0.0,
        hidden=0.0,
        cached_share=cached / prompts if prompts else None,
        sources=(("token_ids", len(rows)),),
        finish_reasons=(("length", len(rows)),),
    )


def require_known(slo: Sequence[Limit]) -> None:
    """InputError where a limit is on what single tokens alone would tell."""
    if unknown := [limit.metric for limit in slo if limit.metric not in JUDGED]:
        raise InputError(f"--slo {unknown[0]}: a simulated run knows {', '.join(JUDGED)}")


def goodput(run: Run, slo: Sequence[Limit], finished_per_s: float) -> Goodput:
    """Of all requests that came. A single token has no TPOT, and so misses its limit."""
    output, e2e = run.output_tokens, run.e2e_s
    tpot = np.full(len(output), np.inf)
    tpot[output > 1] = run.tpot_s
    seconds = (run.ttft_s, run.ttft_s, tpot, e2e, e2e / np.maximum(output, 1))
    times = dict(zip(JUDGED, seconds, strict=True))
    met = np.array([times[limit.metric] <= limit.seconds for limit in slo]).reshape(len(slo), -1)
    good = int(np.count_nonzero(met.all(axis=0)))
    asked = sum(number for _, number in outcomes(run))
    return Goodput(
        slo=tuple(slo),
        good=good,
        requests=asked,
        share=good / asked if asked else 0.0,
        requests_per_s=finished_per_s * good / len(output) if len(output) else 0.0,
        met=tuple(int(each) for each in met.sum(axis=1)),
        without_tpot=int(np.count_nonzero(output <= 1)),
    )
