"""Why requests were refused, in words."""

import numpy as np

from twophase.scheduler.request import Request
from twophase.scheduler.scheduler import refusal_of
from twophase.simulate.books import OUTCOME, REFUSAL, REJECTED
from twophase.simulate.outcome import Run


def refusals(run: Run) -> list[tuple[str, int]]:
    """(reason, requests), commonest first; like reasons together, as the first of them says it."""
    counts = run.records.counts
    refused = np.flatnonzero(counts[:, OUTCOME] == REJECTED)
    codes, first, often = np.unique(counts[refused, REFUSAL], return_index=True, return_counts=True)
    found = []
    for code, at, number in zip(codes.tolist(), refused[first].tolist(), often.tolist(), strict=True):
        asked = Request(at, int(run.workload.prompt_tokens[at]), int(run.workload.output_tokens[at]))
        reasons = [refusal_of(asked, each.pool.limits) for each in run.replicas]
        found.append((next((each for each in reasons if each), f"refused ({code})"), number))
    return sorted(found, key=lambda each: -each[1])
