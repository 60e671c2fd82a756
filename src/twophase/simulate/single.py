"""The loop over one replica's requests."""

from twophase.simulate.books import Replica
from twophase.simulate.replica import DONE, advance, submit


def serve(replica: Replica, first: int, until_s: float) -> tuple[int, int]:
    """Requests from row `first` on arrive at their times, and everyone is served to the end, or to `until_s`.

    Returns the row that it came to, and DONE or what is lacking; then call again from that row.
    """
    arrival_s = replica.requests.arrival_s
    for request in range(first, len(arrival_s)):
        if arrival_s[request] > until_s:
            break
        code = advance(replica, arrival_s[request])
        if code == DONE:
            code = submit(replica, request, arrival_s[request])
        if code != DONE:
            return request, code
    return len(arrival_s), advance(replica, until_s)
