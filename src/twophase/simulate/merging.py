"""One record of each request, where two replicas had a part in it."""

from collections.abc import Sequence

import numpy as np

from twophase.simulate.books import (
    CACHED,
    FINISHED,
    LOST_BLOCKS,
    OUTCOME,
    REFUSAL,
    REJECTED,
    SCHEDULED_S,
    TRUNCATED,
    UNSEEN,
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
    seen = np.isin(first.counts[:, OUTCOME], (TRUNCATED, FINISHED))
    counts[seen & (counts[:, OUTCOME] == UNSEEN), OUTCOME] = TRUNCATED  # in prefill, or on its way
    return Records(moments, counts)
