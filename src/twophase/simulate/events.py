"""What is to come at moments that are not known beforehand: a heap in arrays, ties in the order of adding."""

from twophase.simulate.cluster_books import (
    EVENT_KIND,
    EVENT_ORDER,
    EVENT_REQUEST,
    HEAP_SIZE,
    N_EVENTS,
    Cluster,
)


def before(cluster: Cluster, one: int, other: int) -> bool:
    heap, events = cluster.heap, cluster.events
    if heap[one] != heap[other]:
        return bool(heap[one] < heap[other])
    return bool(events[one, EVENT_ORDER] < events[other, EVENT_ORDER])


def swap(cluster: Cluster, one: int, other: int) -> None:
    heap, events = cluster.heap, cluster.events
    heap[one], heap[other] = heap[other], heap[one]
    for column in range(3):
        events[one, column], events[other, column] = events[other, column], events[one, column]


def push(cluster: Cluster, moment: float, kind: int, request: int) -> None:
    at = cluster.counts[HEAP_SIZE]
    cluster.heap[at] = moment
    cluster.events[at, EVENT_ORDER] = cluster.counts[N_EVENTS]
    cluster.events[at, EVENT_KIND], cluster.events[at, EVENT_REQUEST] = kind, request
    cluster.counts[N_EVENTS] += 1
    cluster.counts[HEAP_SIZE] += 1
    while at > 0 and before(cluster, at, (at - 1) // 2):
        swap(cluster, at, (at - 1) // 2)
        at = (at - 1) // 2


def pop(cluster: Cluster) -> None:
    """The first, which is at place 0, is over."""
    last = cluster.counts[HEAP_SIZE] - 1
    swap(cluster, 0, last)
    cluster.counts[HEAP_SIZE] = last
    at = 0
    while True:
        first = at
        for child in (2 * at + 1, 2 * at + 2):
            if child < last and before(cluster, child, first):
                first = child
        if first == at:
            return
        swap(cluster, at, first)
        at = first
