"""Hold measured rows against the floor: what is impossible, contradicts itself, or can't be checked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from twophase.errors import InputError
from twophase.lint.breaks import Break, breaks, possible
from twophase.lint.quantities import Quantity, quantities
from twophase.lint.resident import Resident, resident
from twophase.lint.served import Served, Sources, resolver
from twophase.results import Point, inconsistencies
from twophase.results.point import RATES, TIMES

MOST_TOKENS, MOST_CLIENTS, MOST_DEVICES = 100_000_000, 10_000_000, 1_000_000
SECONDS = (1e-12, 1e12)  # between which a time, or the time for one token, can be meant
CROWDED = 1.1  # clients for each sequence that decodes, from which on a row is told of it


@dataclass(frozen=True, slots=True)
class Flag:
    kind: Literal["impossible", "suspicious"]
    says: str
    breaks: tuple[Break, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """A row and what was found. `why`: why it has no floor; then only contradictions are flagged."""

    point: Point
    served: Served | None
    why: str = ""
    quantities: tuple[Quantity, ...] = ()
    flags: tuple[Flag, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tightest(self) -> Quantity | None:
        """What comes nearest to its floor, or furthest below it."""
        return min(self.quantities, key=lambda each: each.headroom, default=None)

    @property
    def impossible(self) -> bool:
        return any(flag.kind == "impossible" for flag in self.flags)


def lint(
    points: Sequence[Point], sources: Sources, report: Callable[[float], None] = lambda share: None
) -> list[Checked]:
    """report: told the share of rows that are done."""
    served_of = resolver(sources)
    found = []
    for i, point in enumerate(points):
        found.append(check(point, served_of))
        report((i + 1) / len(points))
    return found


def check(point: Point, served_of: Callable[[Point], Served]) -> Checked:
    contradictions = tuple(Flag("suspicious", sentence) for sentence in inconsistencies(point))
    if not point.measured:
        return Checked(point, None, "the row has no time and no rate", flags=contradictions)
    try:
        _require_sane(point)
        served = served_of(point)
    except InputError as error:
        return Checked(point, None, str(error), flags=contradictions)
    batch = resident(point, served)
    measured = tuple(quantities(point, served, batch))
    if not measured:
        return Checked(
            point, served, "no time or rate that has a floor: lengths are missing", (), contradictions
        )
    beaten = (_beats(point, served, each) for each in measured if not possible(each))
    flags = (*beaten, *_mislabelled(point, served, batch), *contradictions)
    return Checked(point, served, "", measured, flags, (*served.assumed, *_crowded(point, batch)))


def _require_sane(point: Point) -> None:
    """InputError for what no benchmark has: a cell that was read from the wrong column."""
    for field in ("input_tokens", "output_tokens", "cached_tokens"):
        tokens = getattr(point, field) or 0
        if tokens > MOST_TOKENS:
            raise InputError(f"{field} of {tokens:,.0f} are more than {MOST_TOKENS:,}")
        if 0 < tokens < 1 and field != "cached_tokens":
            raise InputError(f"{field} of {tokens:g} is less than one")
    if (point.concurrency or 0) > MOST_CLIENTS:
        raise InputError(f"a concurrency of {point.concurrency:,.0f} is more than {MOST_CLIENTS:,}")
    for field in ("tp", "pp", "dp", "ep", "gpus"):
        if (getattr(point, field) or 0) > MOST_DEVICES:
            raise InputError(f"{field} of {float(getattr(point, field)):.3g} is more than {MOST_DEVICES:,}")
    least, most = SECONDS
    for field in TIMES:
        seconds = getattr(point, field)
        if seconds and not least <= seconds <= most:
            raise InputError(f"{field} {seconds:g} is no time")
    for field in RATES:
        rate = getattr(point, field)
        if rate and not 1 / most <= rate <= 1 / least:
            raise InputError(f"{field} {rate:g} is no rate")


def _beats(point: Point, served: Served, each: Quantity) -> Flag:
    found = breaks(point, served, each)
    ways = (
        "; possible " + ", or ".join(way.says for way in found)
        if found
        else "; no one assumption explains it"
    )
    return Flag("impossible", f"{versus(each)}{ways}", tuple(found))


def versus(each: Quantity) -> str:
    bound = "arithmetic" if each.bound == "compute" else "memory bandwidth"
    if each.is_rate:
        unit = "requests/s" if each.name == "requests" else f"{each.name} tokens/s"
        return (
            f"{1 / each.measured_s:,.4g} {unit} are more than the {1 / each.floor_s:,.4g} that {bound} allows"
        )
    return f"{each.name} {ms(each.measured_s)} is less than the {ms(each.floor_s)} that {bound} allows"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.4g} ms"


def _mislabelled(point: Point, served: Served, batch: Resident) -> Iterator[Flag]:
    """Not below a floor, but as no engine runs it."""
    tp, heads = served.decode.own.plan.tp, served.decode.uneven_heads
    if heads:
        yield Flag(
            "suspicious",
            f"TP {tp} can't share {heads} heads evenly: data-parallel attention or experts recorded as TP",
        )
    weights, memory = served.decode.weights_bytes, served.accelerator.memory_bytes
    if weights > memory:
        yield Flag(
            "suspicious",
            f"the weights are {weights / 1e9:,.4g} GB on each device, which has {memory / 1e9:,.4g} GB: "
            "more devices, a narrower format or offloading",
        )
    elif batch.overfull:
        decoding, admitted = batch.overfull
        yield Flag(
            "suspicious",
            f"{decoding:,.0f} sequences decode at once by their times, but memory holds the prompts of "
            f"{admitted:,.0f}: more replicas, data-parallel attention recorded as TP, or a shared prefix",
        )


def _crowded(point: Point, batch: Resident) -> Iterator[str]:
    known = batch.stated and not batch.overfull and not point.batch_is_resident
    if known and batch.stated and batch.stated > max(CROWDED * batch.decoding, batch.decoding + 1):
        held = f"; memory holds {batch.held:,.0f} at full length" if batch.held is not None else ""
        yield f"of {batch.stated:,.0f} clients about {batch.decoding:,.0f} decode at once{held}"
