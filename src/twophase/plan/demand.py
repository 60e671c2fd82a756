"""A workload as bounds see it: what of each request must be computed whatever is cached, and until when."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.plan.slo import Slo
from twophase.simulate.books import KEYS, KEYS_FROM
from twophase.simulate.pools import BLOCK_SIZE
from twophase.simulate.workload_arrays import rows_of
from twophase.workload.workload import Workload

Floats = NDArray[np.float64]


class Demand(NamedTuple):
    """Floats of one element a request."""

    prompt: Floats
    own: Floats  # prompt tokens in no block that another request has: at least the last one
    output: Floats
    deadline_s: Floats  # after the first arrival: whoever keeps the SLO is done by then
    prompt_deadline_s: Floats  # and has its first token by then
    misses: int  # requests that may miss it


def demand_of(workload: Workload, slo: Slo, prefix_cache: bool) -> Demand:
    prompt, output = workload.prompt_tokens.astype(np.float64), workload.output_tokens.astype(np.float64)
    own = prompt - shared_tokens(workload) if prefix_cache else prompt
    done = begun = np.full(len(workload), np.inf)
    if workload.follows is None and len(workload):
        since = workload.arrival_s - workload.arrival_s[0]
        decoding = np.maximum(output - 1, 0) * slo.tpot_s if slo.tpot_s < np.inf else np.inf * output
        done = since + np.minimum(slo.ttft_s + decoding, slo.e2e_s)
        begun = since + min(slo.ttft_s, slo.e2e_s)
    return Demand(prompt, np.maximum(own, 1.0), output, done, begun, slo.misses_allowed(len(workload)))


def shared_tokens(workload: Workload) -> Floats:
    """Of each prompt, in blocks whose key is another request's too: a prefix cache may hold them."""
    if workload.content is None:
        return np.zeros(len(workload))
    requests = rows_of(workload, BLOCK_SIZE)
    counts = requests.counts
    starts, sizes = counts[:, KEYS_FROM], counts[:, KEYS]
    _, which, often = np.unique(requests.keys, return_inverse=True, return_counts=True)
    known = np.concatenate([[0], np.cumsum(often[which] > 1)])
    full = np.minimum(workload.prompt_tokens // BLOCK_SIZE, sizes)
    return np.asarray((known[starts + full] - known[starts]) * float(BLOCK_SIZE))
