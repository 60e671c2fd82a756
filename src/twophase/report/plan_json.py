"""A plan as one JSON document."""

import json
from math import isfinite
from typing import Any

from twophase.plan.answer import Answer
from twophase.plan.candidate import Candidate, as_dict
from twophase.plan.commands import launch
from twophase.plan.search import Best
from twophase.plan.slo import Kept
from twophase.plan.trial import Trial
from twophase.report.clock_json import clock
from twophase.report.plan_rows import notes, why_lost

Json = dict[str, Any]


def to_json(own: Answer, name: str, model: str) -> str:
    return json.dumps(document(own, name, model), indent=2, allow_nan=False, ensure_ascii=False)


def document(own: Answer, name: str, model: str) -> Json:
    asked, looked = own.question, own.looked
    load = asked.workload
    return {
        "model": name,
        "slo": {
            **{f"{limit}_s": value for limit, value in asked.slo.limits},
            "attainment": asked.slo.attainment,
        },
        "load": {
            "requests": len(load),
            "requests_per_s": load.rate,
            "prompt_tokens_mean": float(load.prompt_tokens.mean()),
            "output_tokens_mean": float(load.output_tokens.mean()),
        },
        "usd_per_gpu_hour": dict(asked.prices),
        "candidates": {
            "considered": looked.considered,
            "most_gpus": looked.most_devices,
            "ruled_out": dict(sorted(looked.lost.items())),
            "left": looked.left,
            "simulated": own.simulated,
        },
        "winner": best(own, own.best),
        "cheapest_measured": best(own, own.measured),
        "fewest_gpus": best(own, own.fewest),
        "densest": None
        if own.densest is None
        else {**(best(own, own.densest[0]) or {}), "requests_per_s_per_gpu": own.densest[1]},
        "rivals": [
            {"gpu": each.gpu, "split": each.split, "best": best(own, each.best)} for each in own.rivals
        ],
        "front": [best(own, each) for each in own.front],
        "lost": [
            {
                **candidate(own, each.candidate),
                "usd_per_hour": each.usd_per_hour,
                **trial(each.trial),
                "why": why_lost(own, each),
            }
            for each in own.near
        ],
        "sensitivity": [
            {
                "what": each.what,
                "factor": each.factor,
                "meets": each.meets,
                "needed": candidate(own, each.needed) if each.needed else None,
                **trial(each.trial),
            }
            for each in own.changes
        ],
        "clocks": {gpu: clock(each) for gpu, each in own.clocks.items()},
        "notes": notes(own),
        "launch": launch(asked, own.best.candidate, model) if own.best else None,
    }


def best(of: Answer, own: Best | None) -> Json | None:
    if own is None:
        return None
    return {**candidate(of, own.candidate), "usd_per_hour": own.usd_per_hour, **trial(own.trial)}


def candidate(of: Answer, own: Candidate) -> Json:
    return {
        "gpu": own.gpu,
        "extrapolated": of.extrapolated(own),
        "gpus": own.devices,
        "replicas": own.replicas,
        "engine": as_dict(own.serving),
        "prefill": None
        if own.prefill is None
        else {"replicas": own.prefill_replicas, **as_dict(own.prefill)},
    }


def trial(own: Trial) -> Json:
    return {**kept(own.kept), "busy_share": own.busy_share, "output_tokens_per_s": own.output_tokens_per_s}


def kept(own: Kept) -> Json:
    """Quantiles of the attainment; null: so many never finish."""
    times = {"ttft_s": own.ttft_s, "tpot_s": own.tpot_s, "e2e_s": own.e2e_s}
    known = {name: value if isfinite(value) else None for name, value in times.items()}
    return {"share": own.share, **known, "queue_grows": own.grows, "cut_off": own.cut}
