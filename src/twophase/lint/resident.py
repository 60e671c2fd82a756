"""How many sequences a decode step has: clients are not the resident batch.

A client waits, computes its prompt, and only then decodes; and memory holds so many sequences and no more.
By Little's law the decode steps of a closed loop have clients · (time that a request decodes / its whole
time) sequences on average. A step's time grows with its batch at most linearly, so that the floor at the
average batch holds for the average step.
"""

from dataclasses import dataclass

from twophase.lint.deployed import sequences_held
from twophase.lint.served import Served
from twophase.results import Point

USABLE = 0.9  # of memory, that engines take
OVERFULL = 1.5  # more sequences than memory holds, before the row is called wrong for it
MANY = 100_000


@dataclass(frozen=True, slots=True)
class Resident:
    """Sequences of one replica."""

    decoding: float  # on average in a decode step, at least
    most: float  # that can be in one: no more clients, no more memory
    stated: float | None = None  # its share of the clients
    held: float | None = None  # that memory holds at full length; None where a length is not known
    overfull: tuple[float, float] | None = None  # (decoding by the row's times, prompts that memory holds)


def resident(point: Point, served: Served) -> Resident:
    clients = point.concurrency / served.replicas if point.concurrency else None
    if point.batch_is_resident:
        return Resident(max(clients or 1.0, 1.0), max(clients or 1.0, 1.0), clients)
    prompt, output = point.input_tokens, point.output_tokens
    held = middle = overfull = None
    decoding = clients * decode_share(point) if clients else None
    if prompt and output:
        memory = served.accelerator.memory_bytes
        held = sequences_held(served.decode, prompt + output, USABLE * memory)
        middle = sequences_held(served.decode, prompt + output / 2, memory)
        admitted = max(1.0, sequences_held(served.decode, prompt, memory))
        # In pools apart, a request also waits for its decode step between its first and its second token.
        if decoding and point.ttft_s and not point.disaggregated and decoding > OVERFULL * admitted:
            overfull = (decoding, admitted)
    by_rate = _by_rate(point, served)
    if by_rate is not None:
        decoding = by_rate if decoding is None else min(decoding, by_rate)
    if overfull or not served.spread:
        decoding = None  # the clients are on more devices than the row says
    return Resident(
        decoding=max(1.0, min(each for each in (decoding or 1.0, held) if each is not None)),
        most=max(1.0, min(each for each in (clients, middle, MANY) if each is not None)),
        stated=clients,
        held=held,
        overfull=overfull,
    )


def decode_share(point: Point) -> float:
    """Of a request's time, what it decodes; 1 where the row does not tell."""
    tpot, outputs = time_per_token(point), point.output_tokens
    if not (point.ttft_s and tpot and outputs and outputs > 1):
        return 1.0
    decoding = (outputs - 1) * tpot
    return decoding / (point.ttft_s + decoding)


def time_per_token(point: Point) -> float | None:
    """TPOT; else what each user's rate says."""
    per_user = point.output_tokens_per_s_per_user
    return point.tpot_s or (1 / per_user if per_user else None)


def output_rate(point: Point, served: Served) -> float | None:
    """Of the whole system, output tokens/s."""
    per_gpu = point.output_tokens_per_s_per_gpu
    return point.output_tokens_per_s or (per_gpu * served.devices if per_gpu else None)


def _by_rate(point: Point, served: Served) -> float | None:
    rate, tpot = output_rate(point, served), time_per_token(point)
    return rate * tpot / served.replicas if rate and tpot else None
