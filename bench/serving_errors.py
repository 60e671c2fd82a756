"""Errors of predicted serving points, by group; and points that can't be."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from serving_rows import Row

from twophase.lint.lint import check
from twophase.lint.names import Models
from twophase.lint.served import Served, Sources, resolver
from twophase.results import Point

Scored = tuple[Row, float, float]  # predicted over measured TTFT, TPOT
LITTLE = 0.8  # of the rate that clients / (TTFT + outputs · TPOT) gives: medians are not means


def impossible(row: Row) -> str:
    """Why, or "": its throughput by Little's law is more than its devices' roofs allow."""
    point = row.point
    if point.disaggregated or not point.ttft_s or not point.tpot_s:
        return ""
    whole = point.ttft_s + (row.output - 1) * point.tpot_s
    asked = replace(
        point,
        requests_per_s=LITTLE * row.clients / whole,
        input_tokens=float(round(row.prompt)),
        output_tokens=float(round(row.output)),
    )
    found = [flag.says for flag in check(asked, _served()).flags if flag.kind == "impossible"]
    return found[0] if found else ""


@cache
def _served() -> Callable[[Point], Served]:
    return resolver(Sources(Models()))


def table(scored: Sequence[Scored], *by: str) -> str:
    groups: dict[str, list[Scored]] = defaultdict(list)
    for each in scored:
        row = each[0]
        groups["all"].append(each)
        pools = "aggregated" if not row.point.disaggregated else "pools" if row.known else "pools, unsaid"
        for group in (pools, f"engine {row.engine}", f"system {row.system}", f"model {row.model}"):
            groups[group].append(each)
    titles = "".join(f"{name + ' median':>13}{'MAPE':>8}{'bias':>8}" for name in ("TPOT", "TTFT"))
    lines = [f"{'':38}{'rows':>6}{titles}"]
    for name, each in groups.items():
        lines.append(f"{name:38}{len(each):6d}" + "".join(_errors([s[i] for s in each]) for i in (2, 1)))
    head, rest = lines[:2], sorted(lines[2:])
    return "\n".join([*head, *rest])


def _errors(ratios: list[float]) -> str:
    off = np.abs(np.array(ratios) - 1)
    return f"{np.median(off):13.1%}{np.mean(off):8.1%}{np.median(ratios) - 1:+8.1%}"
