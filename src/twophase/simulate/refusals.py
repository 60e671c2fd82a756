"""Why requests were refused, in words."""

from collections import Counter

import numpy as np

from twophase.scheduler.request import Request
from twophase.scheduler.scheduler import refusal_of
from twophase.simulate.books import OUTCOME, REJECTED
from twophase.simulate.outcome import Run


def refusals(run: Run) -> list[tuple[str, int]]:
    """(reason, requests), commonest first; like reasons together, as one of them says it."""
    limits = run.replicas[0].pool.limits
    said: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for row in np.flatnonzero(run.records.counts[:, OUTCOME] == REJECTED).tolist():
        prompt, output = int(run.workload.prompt_tokens[row]), int(run.workload.output_tokens[row])
        reasons = [refusal_of(Request(row, prompt, output), each.pool.limits) for each in run.replicas]
        reason = next((each for each in reasons if each), f"more than {limits.context_length} tokens")
        kind = "blocks" if "KV blocks" in reason else reason.split()[-1]
        said[kind] += 1
        examples.setdefault(kind, reason)
    return [(examples[kind], number) for kind, number in said.most_common()]
