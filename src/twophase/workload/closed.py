"""Closed loops: so many clients, each of which asks again when it was answered."""

from dataclasses import replace

import numpy as np

from twophase.workload.workload import Workload


def closed(workload: Workload, clients: int) -> Workload:
    """The same requests (conversations) in the same order, dealt to the clients in turn. All begin at once;
    each next one comes when its client's last one has ended."""
    before = np.full(len(workload), -1) if workload.follows is None else workload.follows
    first = np.arange(len(workload))
    for later in np.flatnonzero(before >= 0).tolist():  # turns come after those that they follow
        first[later] = first[before[later]]
    last = np.zeros(len(workload), np.int64)
    np.maximum.at(last, first, np.arange(len(workload)))
    begins = np.flatnonzero(before < 0)
    follows = before.copy()
    follows[begins[clients:]] = last[begins[:-clients]]
    return replace(workload, arrival_s=np.where(before < 0, 0.0, workload.arrival_s), follows=follows)
