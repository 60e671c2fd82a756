"""Readings of counters as one JSON document: the keys of a picture, null where the engine does not tell."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from twophase.counters.picture import Picture, Times
from twophase.counters.reading import Reading
from twophase.counters.share import Share

TOKENS = ("prompt_length", "output_length", "batch")  # histograms that are not of seconds
NAMES = {
    **{name: f"{name}_s" for name in ("ttft", "itl", "tpot", "e2e", "queue")},
    **{name: f"request_{name}_s" for name in ("prefill", "decode")},  # never to be taken for the GPU's
}
FROM_HERE = ("times", "notes")


def to_json(readings: Sequence[Reading], indent: int | None = 2) -> str:
    """One model's keys at the top; of several, `models` has them and the top what they share."""
    models = [document(each) for each in readings]
    if len(models) == 1:
        made = models[0]
    else:
        made = {name: models[0][name] for name in ("window_s", "covered_s")} | {"models": models}
    return json.dumps(made, indent=indent, allow_nan=False, ensure_ascii=False)


def document(own: Reading) -> dict[str, Any]:
    picture = own.picture
    return {
        **{
            each.name: _plain(getattr(picture, each.name))
            for each in fields(Picture)
            if each.name not in FROM_HERE
        },
        **{key: _times(picture.times.get(name)) for name, key in NAMES.items()},
        "phase_share": _share(own.shares[0]) if own.shares else None,
        "phase_shares": [_share(each) for each in own.shares],
        "phase_share_missing": list(own.missing),
        "workload": asdict(own.workload) if own.workload else None,
        "dominant": own.dominant,
        "verdict": own.verdict,
        "notes": list(picture.notes),
    }


def _plain(value: Any) -> Any:
    """Counts as whole numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def _times(own: Times | None) -> dict[str, Any] | None:
    """Each quantile with its bucket's bounds."""
    if own is None:
        return None
    quantiles = {f"p{share * 100:g}": asdict(each) for share, each in own.quantiles}
    return {"count": _plain(own.count), "mean": own.mean, **quantiles}


def _share(own: Share) -> dict[str, Any]:
    return {
        "method": own.method,
        "prefill": asdict(own.prefill),
        "prefill_s": asdict(own.prefill_s) if own.prefill_s else None,
        "decode_s": asdict(own.decode_s) if own.decode_s else None,
        "why": list(own.why),
    }
