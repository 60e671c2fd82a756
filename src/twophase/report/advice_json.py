"""Levers as one JSON document: SI units in the names' suffixes, gains as factors above one where better."""

import json
from math import isfinite
from typing import Any

from twophase.advise.advising import Advising, Lever
from twophase.advise.diagnosis import Phase
from twophase.advise.figures import Figures
from twophase.advise.point import Work
from twophase.report.clock_json import clock

Json = dict[str, Any]
PHASES: tuple[Phase, ...] = ("prefill", "decode")


def to_json(own: Advising) -> str:
    return json.dumps(document(own), indent=2, allow_nan=False, ensure_ascii=False)


def document(own: Advising) -> Json:
    setup = own.setup
    return {
        "model": setup.model.spec.name,
        "gpu": setup.accelerator.name,
        "preset": setup.preset.memory,
        "policy": setup.policy,
        "weights": setup.model.storage.name,
        "kv": setup.kv,
        **dict(setup.plan.sizes),
        "devices": setup.devices,
        "aim": own.aim,
        "slo": {f"{metric}_s": seconds for metric, seconds in own.slo} or None,
        "load": load(own),
        "clock": clock(own.pool.estimate),
        "kv_tokens": own.pool.limits.blocks * own.pool.limits.block_size * own.pool.count,
        "max_concurrency": own.seats,
        "before": figures(own.before),
        "dominant": own.dominant,
        "phases": {
            phase: {
                "share": own.point.share(phase),
                "share_at_most": own.full_prefill_share if phase == "prefill" else 1 - own.full_prefill_share,
                **work(own.point.work(phase)),
            }
            for phase in PHASES
        },
        "batch": own.point.batch,
        "context_tokens": own.point.context,
        "levers": [lever(each) for each in own.levers],
        "notes": [*([own.overload] if own.overload else []), *own.notes],
    }


def load(own: Advising) -> Json:
    made = own.load
    return {
        "kind": "concurrency" if made.clients else "rate" if made.recorded is None else "trace",
        "requests_per_s": made.rate if made.recorded is None else made.recorded.rate,
        "concurrency": made.clients,
        "prompt_tokens": made.prompt_tokens,
        "output_tokens": made.output_tokens,
        "shared": made.shared,
        "requests": own.requests,
    }


def figures(own: Figures) -> Json:
    a_request = own.output_tokens_per_s / own.requests_per_s if own.requests_per_s else 0.0
    return {
        "ttft_s": {"mean": finite(own.ttft_s), "p99": finite(own.ttft_p99_s)},
        "itl_s": {"mean": own.itl_s},
        "gap_s": {"p99": own.gap_p99_s},
        "e2e_s": {"mean": finite(own.e2e_s)},
        "throughput": {
            "requests_per_s": own.requests_per_s,
            "output_tokens_per_s": own.output_tokens_per_s,
            "output_tokens_per_s_per_gpu": own.output_tokens_per_s / own.devices,
            "output_tokens_per_request": a_request,
        },
        "usd_per_million_output_tokens": own.usd_per_million_output_tokens,
        "usd_per_1000_requests": own.usd_per_1000_requests,
        "goodput": None
        if own.good is None or own.goodput_per_s is None
        else {
            "share": own.good,
            "requests_per_s": own.goodput_per_s,
            "requests_per_s_per_gpu": own.goodput_per_s / own.devices,
            "most_requests_per_s": own.most_good_per_s,
        },
        "cached_share": own.cached_share,
        "devices": own.devices,
        "overload": own.grows,
    }


def work(own: Work) -> Json:
    return {
        "seconds": own.seconds,
        "compute_s": own.compute_s,
        "memory_s": own.memory_s,
        "weights_s": own.weight_s,
        "kv_s": own.kv_s,
        "bound": own.bound,
    }


def lever(own: Lever) -> Json:
    return {
        "lever": own.known.lever,
        "change": own.title,
        "phase": own.known.phase,
        "kind": own.known.kind,
        "method": own.method,
        "helps": own.helps,
        "effects": {
            aim: {
                "before": finite(each.before),
                "after": finite(each.after),
                "gain": finite(each.gain),
                "gain_range": list(each.gain_range) if each.gain_range else None,
            }
            for aim, each in own.effects.items()
        },
        "after": figures(own.figures) if own.figures else None,
        "why": own.why,
        "assumed": own.assumed or None,
        "price": dict(own.price),
        "flags": dict(own.flags),
    }


def finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
