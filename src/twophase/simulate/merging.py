"""One record of each request, where two replicas had a part in it."""

from collections.abc import Sequence

import numpy as np

from twophase.simulate.books import (
    CACHED,
    FINISHED,
    LOST_BLOCKS,
    OUTCOME,
    OUTSTANDING,
    REFUSAL,
    REJECTED,
    SCHEDULED_S,
    Records,
)


def merged(records: Sequence[Records], split: bool) -> Records:
    """`split`: of prefill replicas, then of decode replicas. Records of one kind are shared already."""
    if not split:
        return records[0]
    first, second = records
    moments, counts = second.moments.copy(), second.counts.copy()
    moments[:, SCHEDULED_S] = first.moments[:, SCHEDULED_S]
    counts[:, CACHED] = first.counts[:, CACHED]
    counts[:, LOST_BLOCKS] += first.counts[:, LOST_BLOCKS]
    refused = first.counts[:, OUTCOME] == REJECTED
    counts[refused, OUTCOME], counts[refused, REFUSAL] = REJECTED, first.counts[refused, REFUSAL]
    on_the_way = np.isin(first.counts[:, OUTCOME], (OUTSTANDING, FINISHED)) & (counts[:, OUTCOME] == 0)
    counts[on_the_way, OUTCOME] = OUTSTANDING
    return Records(moments, counts)
