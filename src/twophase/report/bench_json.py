"""A load run as one JSON document. Keys are an interface; seconds, tokens, shares of one."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from twophase.meter.definitions import Projected
from twophase.meter.distribution import Distribution
from twophase.meter.load_law import LoadLaw
from twophase.meter.records import LoadRun
from twophase.meter.summary import Latencies, Summary
from twophase.report.bench_rows import notes

Json = dict[str, Any]


def to_json(
    run: LoadRun,
    summary: Summary,
    projected: Sequence[Projected] = (),
    tool: str = "",
) -> str:
    """Indented JSON; a number that is not finite is a fault of ours and raises ValueError."""
    return json.dumps(document(run, summary, projected, tool), indent=2, allow_nan=False, ensure_ascii=False)


def document(
    run: LoadRun,
    summary: Summary,
    projected: Sequence[Projected] = (),
    tool: str = "",
) -> Json:
    made = {
        "server": {
            "url": run.target.url,
            "model": run.target.model,
            "endpoint": run.target.endpoint,
            "facts": dict(run.facts),
        },
        "began_at": run.began_at,
        "partial": run.partial or None,
        **figures(summary),
        "levels": [{"point": each.point, **figures(each)} for each in summary.levels],
        "fit": {"tpot": fit(summary.law)} if summary.law else None,
        "notes": notes(run, summary),
    }
    if projected:
        made["definitions"] = {
            "of": tool,
            "metrics": {
                each.name: {"formula": each.formula, **(asdict(each.seconds) if each.seconds else {})}
                for each in projected
            },
        }
    return made


def figures(summary: Summary) -> Json:
    outcomes = dict(summary.outcomes)
    error = summary.error
    return {
        "requests": {
            "total": summary.requests,
            "ok": outcomes.pop("finished"),
            **outcomes,
        },
        "reasons": [
            {"outcome": kind, "reason": reason, "requests": number}
            for kind, reason, number in summary.reasons
        ],
        "latency_from": summary.since,
        **latency(summary.latencies),
        "ttft_from_" + ("sent_s" if summary.since == "due" else "due_s"): spread(summary.other_ttft),
        "e2e_from_" + ("sent_s" if summary.since == "due" else "due_s"): spread(summary.other_e2e),
        "first_cohort": {"requests": summary.cohort_requests, **latency(summary.first_cohort)}
        if summary.first_cohort
        else None,
        "throughput": asdict(summary.throughput),
        "whole_throughput": asdict(summary.whole_throughput),
        "tokens_per_s_of_a_request": {
            "after_first_token": pace(summary.latencies.tpot),
            "start_to_end": pace(summary.latencies.ntpot),
        },
        "in_flight": asdict(summary.in_flight),
        "tokens": {
            **asdict(summary.tokens),
            "sources": dict(summary.tokens.sources),
            "finish_reasons": dict(summary.tokens.finish_reasons),
        },
        "goodput": goodput(summary),
        "meter_error_s": error.ttft.p99 if error.ttft else None,
        "meter": {
            "error_s": {name: spread(getattr(error, name)) for name in ("ttft", "tpot", "gap", "e2e")},
            "lag": asdict(error.lag),
            "client_limited": error.limited or None,
        },
    }


def fit(own: LoadLaw) -> Json:
    made = asdict(own)
    made["poor"] = list(own.poor)
    made["relative_noise"] = made.pop("noise")
    made["relative_worst"] = made.pop("worst")
    return made


def latency(own: Latencies) -> Json:
    return {
        "ttft_s": spread(own.ttft),
        "ttfa_s": spread(own.ttfa),
        "tpot_s": spread(own.tpot),
        "tpot_token_weighted_s": own.tpot_token_weighted_s,
        "gap_s": spread(own.gap),
        "e2e_s": spread(own.e2e),
        "ntpot_s": spread(own.ntpot),
        "tokens_per_event": spread(own.tokens_per_event),
        "events_per_read": spread(own.events_per_read),
        "role_lead_s": spread(own.role_lead),
        "queue_s": spread(own.queue),
        "queue_share": spread(own.queue_share),
    }


def pace(own: Distribution | None) -> float | None:
    return 1 / own.mean if own and own.mean else None


def spread(own: Distribution | None) -> Json | None:
    return asdict(own) if own else None


def goodput(summary: Summary) -> Json | None:
    own = summary.goodput
    if own is None:
        return None
    return {
        "slo": {f"{limit.metric}_s": limit.seconds for limit in own.slo},
        "met": {limit.metric: met for limit, met in zip(own.slo, own.met, strict=True)},
        "good": own.good,
        "requests": own.requests,
        "share": own.share,
        "requests_per_s": own.requests_per_s,
        "without_tpot": own.without_tpot,
    }
