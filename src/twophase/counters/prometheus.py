"""A window from a Prometheus server: each counter's own points, added up from reset to reset.

increase() extrapolates to the window's ends and needs a function for each name; points need neither.
"""

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, isfinite
from typing import Any
from urllib.parse import urlencode, urlsplit

from twophase.counters.engines import Engine, names_of, recognised
from twophase.counters.exposition import Labels, Series, number_of
from twophase.counters.fetch import Target, fetch, with_path
from twophase.counters.turned_off import no_engine
from twophase.counters.window import MOST, STARTED, Gauge, Window, process_of, usable
from twophase.errors import InputError

Points = list[tuple[float, float]]
POINTS = 240  # of a series: a reset between two of them is seen where the counter has not caught up by then
AT_ONCE = 25  # names in a query: URLs have limits
MATCH = re.compile(r'[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"(?:[^"\\]|\\.)*"')


def prometheus_window(
    own: Target, seconds: float, match: str, now: float | None = None
) -> tuple[list[Engine], Window]:
    """The last `seconds` of all engines that it knows; match: labels they must have, as in a selector."""
    selector = _selector(match)
    end = time.time() if now is None else now
    span = {"start": f"{end - seconds:.3f}", "end": f"{end:.3f}"}
    asked = {**span, "match[]": f"{{{selector}}}"} if selector else span
    names = _names(_get(own, "/api/v1/label/__name__/values", asked), own.url)
    engines = recognised(names)
    if not engines:
        if not names:
            raise InputError(f"{own.url} has no series of the last {seconds:g} s{' like that' * bool(match)}")
        raise no_engine(names, own.url)
    step = max(1, ceil(seconds / POINTS))
    series: dict[Series, Points] = {}
    for some in _batches(sorted(_wanted(engines) & names)):
        query = f'{{__name__=~"{"|".join(map(re.escape, some))}"{"," + selector if selector else ""}}}'
        found = _get(own, "/api/v1/query_range", {**span, "query": query, "step": str(step)})
        series |= _read(found, own.url)
    return engines, window_of(series, _counted(engines), seconds, end - seconds, step)


def _names(found: Any, url: str) -> set[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InputError(f"{url}: no list of names came back for one asked for: is it a Prometheus server?")
    return set(found)


def window_of(
    series: dict[Series, Points], counted: set[str], seconds: float, start: float, step: float
) -> Window:
    """counted: names of counters; all others are gauges."""
    began: dict[Labels, float] = {}
    for (_, labels), points in series.items():
        place = process_of(labels)
        began[place] = min(began.get(place, points[0][0]), points[0][0])
    starts = {
        process_of(labels): points[-1][1] for (name, labels), points in series.items() if name == STARTED
    }
    increases, last, gauges, resets = {}, {}, {}, set()
    for (name, labels), points in series.items():
        values = [value for _, value in points]
        if name not in counted:
            gauges[name, labels] = Gauge(sum(values) / len(values), values[0], values[-1])
            continue
        place = process_of(labels)
        # From zero where the process was seen without this series before, or began within the window.
        later = points[0][0] > start + 1.5 * step
        fresh = later and (points[0][0] > began[place] + step / 2 or _start(place, starts) > start)
        increases[name, labels] = (values[0] if fresh else 0.0) + _grown(values)
        last[name, labels] = values[-1]
        if any(after < before for before, after in pairwise(values)):
            resets.add(place)
    times = [point[0] for points in series.values() for point in (points[0], points[-1])]
    covered = max(times) - min(times) if times else None
    notes = []
    if resets:
        notes.append(
            f"{len(resets)} of {len(began)} processes restarted within the window, which is counted in"
        )
    if covered is not None and covered < 0.9 * seconds:
        notes.append(f"Prometheus has {covered:.0f} s of the {seconds:.0f} s asked for")
    if increases and not any(increases.values()):
        notes.append("no counter moved in the window")
    return Window(increases, last, gauges, seconds, covered or None, tuple(notes))


def _start(place: Labels, starts: dict[Labels, float]) -> float:
    """Of the process whose rank this is."""
    return next((value for own, value in starts.items() if set(own) <= set(place)), 0.0)


def _grown(values: Sequence[float]) -> float:
    return sum(after - before if after >= before else after for before, after in pairwise(values))


def _counted(engines: Iterable[Engine]) -> set[str]:
    """Whole names of counters and of histograms' parts."""
    found = set()
    for engine in engines:
        own = {each.name for choices in engine.counters.values() for choice in choices for each in choice}
        parts = {
            f"{each.name}_{end}"
            for names in engine.histograms.values()
            for each in names
            for end in ("sum", "count", "bucket")
        }
        found |= {f"{engine.prefixes[0]}{name}" for name in own | parts}
    return found


def _wanted(engines: Iterable[Engine]) -> set[str]:
    engines = list(engines)
    whole = {f"{engine.prefixes[0]}{name}" for engine in engines for name in names_of(engine)}
    pools = {f"{engine.prefixes[0]}cache_config_info" for engine in engines}
    return whole | pools | _counted(engines) | {STARTED}


def _batches(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE))


def _selector(match: str) -> str:
    inner = match.strip().removeprefix("{").removesuffix("}").strip().strip(",")
    at = 0
    while at < len(inner):
        found = MATCH.match(inner, at)
        if found is None:
            raise InputError(f'--match {match}: give labels as Prometheus has them, like namespace="prod"')
        at = found.end()
        at += len(inner[at:]) - len(inner[at:].lstrip(", "))
    return inner


def _get(own: Target, path: str, query: dict[str, str]) -> Any:
    base = urlsplit(own.url).path.rstrip("/").removesuffix("/api/v1")
    answer = fetch(with_path(own, f"{base}{path}", urlencode(query)))
    try:
        found = json.loads(answer.content)
        if found["status"] != "success":
            raise InputError(f"{own.url}: Prometheus says: {str(found.get('error'))[:200]}")
        return found["data"]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise InputError(f"{own.url} is no Prometheus server: status {answer.status} at {path}") from None


def _read(found: Any, url: str) -> dict[Series, Points]:
    made: dict[Series, Points] = defaultdict(list)
    try:
        for each in found["result"]:
            labels = {str(name): str(value) for name, value in each["metric"].items()}
            series = (labels.pop("__name__"), tuple(sorted(labels.items())))
            points = [(float(at), number_of(str(value))) for at, value in each["values"]]
            kept = [
                (at, usable(value))
                for at, value in points
                if isfinite(at) and value is not None and abs(value) <= MOST
            ]
            if kept:
                made[series] = sorted(kept)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise InputError(f"{url}: no range of points came back for one asked for") from None
    return dict(made)
