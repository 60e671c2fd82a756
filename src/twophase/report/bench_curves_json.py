"""A server's diagnosis as one JSON document. Keys are an interface; intervals are 95 %."""

import json
from dataclasses import asdict
from typing import Any

from twophase.meter.beside import Mark
from twophase.meter.itl_law import ItlLaw
from twophase.meter.ttft_curve import TtftFit
from twophase.meter.verdict import Lever
from twophase.report.bench_curves import ServerDiagnosis, all_notes, listed
from twophase.report.bench_json import spread

Json = dict[str, Any]


def to_json(own: ServerDiagnosis) -> str:
    """Indented JSON; a number that is not finite is a fault of ours and raises ValueError."""
    return json.dumps(document(own), indent=2, allow_nan=False, ensure_ascii=False)


def document(own: ServerDiagnosis) -> Json:
    run, curves, verdict, marks = own.run, own.curves, own.verdict, own.verdict.beside
    outcomes = [each.outcome for each in run.replies]
    return {
        "server": {
            "url": run.target.url,
            "model": run.target.model,
            "endpoint": run.target.endpoint,
            "facts": dict(run.facts),
        },
        "began_at": run.began_at,
        "partial": run.partial or None,
        "seconds": curves.seconds,
        "requests": {
            "total": len(outcomes),
            "ok": outcomes.count("finished"),
            **{
                kind: outcomes.count(kind)
                for kind in ("failed", "rejected", "truncated", "cancelled", "empty")
            },
        },
        "prefill": [
            {
                "prompt_tokens": each.prompt_tokens,
                "ttft_s": each.ttft_s,
                "least_s": each.low_s,
                "most_s": each.high_s,
                "runs": each.runs,
                **mark(marks.prefill[at] if marks else None),
            }
            for at, each in enumerate(curves.prefill)
        ],
        "decode": [
            {**asdict(each), **mark(marks.decode[at] if marks else None)}
            for at, each in enumerate(curves.decode)
        ],
        "cached_share": curves.cached_share,
        "fit": {
            "ttft": ttft(curves.ttft) if curves.ttft else None,
            "itl": itl(curves.itl) if curves.itl else None,
            "failed": list(curves.failed),
        },
        "floors": {name: value for name, value in asdict(marks).items() if name not in ("prefill", "decode")}
        if marks
        else None,
        "verdict": {
            "headline": verdict.headline,
            "request": {
                "prompt_tokens": verdict.prompt_tokens,
                "output_tokens": verdict.output_tokens,
                "seconds": verdict.seconds,
            },
            "phases": [asdict(each) for each in verdict.phases],
            "advice": [advice(each) for each in verdict.levers],
        },
        "meter_error_s": own.error.ttft.p99 if own.error.ttft else None,
        "meter": {
            "error_s": {name: spread(getattr(own.error, name)) for name in ("ttft", "tpot", "gap", "e2e")},
            "lag": asdict(own.error.lag),
            "client_limited": own.error.limited or None,
        },
        "notes": all_notes(own),
    }


def advice(own: Lever) -> Json:
    return {**asdict(own), **listed(own)._asdict()}


def mark(own: Mark | None) -> Json:
    if own is None:
        return {}
    return {name: value for name, value in asdict(own).items() if name != "measured_s"}


def ttft(own: TtftFit) -> Json:
    made = asdict(own)
    made["poor"] = list(own.poor)
    made["relative_noise"] = made.pop("noise")
    made["relative_worst"] = made.pop("worst")
    return made


def itl(own: ItlLaw) -> Json:
    made = asdict(own)
    made["poor"] = list(own.poor)
    made["relative_noise"] = made.pop("noise")
    made["relative_worst"] = made.pop("worst")
    return made
