"""A closed loop as `bench` drives one: a warm-up first, over whose time the clients then begin."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from twophase.simulate.outcome import Run
from twophase.workload.closed import MOST_SPREAD_S, MOST_WARMUPS, closed, first_cohort
from twophase.workload.workload import Workload


def by_clients(serve: Callable[[Workload], Run], workload: Workload, clients: int) -> Workload:
    """The workload of so many clients; `serve` simulates one to its end."""
    return closed(workload, clients, request_s(serve, workload, clients))


def request_s(serve: Callable[[Workload], Run], workload: Workload, clients: int) -> float:
    """Mean E2E of the first requests, as many at once as the meter warms up with, none of whose prompts is
    known; 0 where all are refused."""
    begins = first_cohort(workload, min(clients, MOST_WARMUPS))
    alone = Workload(np.zeros(len(begins)), workload.prompt_tokens[begins], workload.output_tokens[begins])
    took = serve(closed(alone, len(begins))).e2e_s
    return min(float(took.mean()), MOST_SPREAD_S) if took.size else 0.0


def told_apart(run: Run, clients: int) -> Run:
    return replace(run, first_cohort=first_cohort(run.workload, clients))
