"""Closed loops: so many clients, each of which asks again when it was answered."""

from dataclasses import replace

import numpy as np

from twophase.workload.workload import Ints, Workload

# of measured and simulated loops: requests at once that warm up, and seconds over which clients begin
MOST_WARMUPS = 8
MOST_SPREAD_S = 10.0


def closed(workload: Workload, clients: int, spread_s: float = 0.0) -> Workload:
    """The same requests (conversations) in the same order, dealt to the clients in turn. Clients begin one
    after the other, evenly over `spread_s` seconds, as the meter's slots do: all at once where none has a
    second one to ask. Each next request comes when its client's last one has ended."""
    before = followed(workload)
    first = np.arange(len(workload))
    for later in np.flatnonzero(before >= 0).tolist():  # turns come after those that they follow
        first[later] = first[before[later]]
    last = np.zeros(len(workload), np.int64)
    np.maximum.at(last, first, np.arange(len(workload)))
    begins = np.flatnonzero(before < 0)
    follows = before.copy()
    follows[begins[clients:]] = last[begins[:-clients]]
    arrival_s = np.where(before < 0, 0.0, workload.arrival_s)
    if len(begins) > clients:
        arrival_s[begins[:clients]] = spread_s * np.arange(clients) / clients
    return replace(workload, arrival_s=arrival_s, follows=follows)


def first_cohort(workload: Workload, clients: int) -> Ints:
    """Rows of the requests with which clients begin."""
    return np.flatnonzero(followed(workload) < 0)[:clients]


def followed(workload: Workload) -> Ints:
    return np.full(len(workload), -1) if workload.follows is None else workload.follows
