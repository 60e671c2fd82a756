"""What counters grew by, and where gauges stood, between two pages of one server."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from twophase.counters.exposition import Labels, Page, Series

PROCESS = ("instance", "pod", "job", "engine", "dp_rank")  # labels that tell processes apart
STARTED = "process_start_time_seconds"
LEAST, MOST = 1e-30, 1e30  # what lies beyond was never counted, and sums of it overflow
SAME_START_S = 1.0  # clocks of `_created` may differ by so much between two writes
COUNTED = ("_total", "_count", "_sum", "_bucket")
COUNTING = {"counter": True, "histogram": True, "summary": True, "gauge": False}


class Gauge(NamedTuple):
    mean: float
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Window:
    increases: Mapping[Series, float]  # of counters, histograms' parts among them
    last: Mapping[Series, float]  # where these counters stand at its end
    gauges: Mapping[Series, Gauge]
    seconds: float | None  # None: nobody said
    covered_s: float | None  # of these, what the increases tell of; None: not known
    notes: tuple[str, ...] = ()


def between(first: Page, second: Page, seconds: float | None) -> Window:
    """A counter that fell has begun anew, and all that it shows has come since: never max(0, difference)."""
    counts = _Counting({**first.types, **second.types})
    after = {each: usable(value) for each, value in second.samples.items() if abs(value) <= MOST}
    before = {each: usable(value) for each, value in first.samples.items() if abs(value) <= MOST}
    counters = {each: value for each, value in after.items() if counts(each[0]) and value >= 0}
    anew = _restarted(before, after, counters)
    increases, fell = {}, set()
    for series, value in counters.items():
        had = before.get(series, 0.0)
        if process_of(series[1]) in anew:
            increases[series] = value
        elif series[0].endswith("_bucket"):  # one that falls alone is a fault: its histogram shows it
            increases[series] = value - had if counted_on(series, before, after) else value
        elif value < had or _created_later(series, before, after):
            increases[series] = value
            fell.add(series[0])
        else:
            increases[series] = value - had
    gauges = {
        each: Gauge((value + before.get(each, value)) / 2, before.get(each, value), value)
        for each, value in after.items()
        if not counts(each[0]) and not each[0].endswith("_created")
    }
    notes, covered = [], seconds
    if anew:
        covered, said = _since_restart(after, first, second, seconds)
        notes.append(said)
    if fell:
        names = ", ".join(sorted(fell)[:3]) + (" and others" if len(fell) > 3 else "")
        notes.append(f"counters fell alone and were taken to have begun anew: {names}")
    if first.samples and first.samples == second.samples:
        notes.append("both pages are the same: one scrape twice, or a server without any traffic")
    elif increases and not any(increases.values()):
        notes.append("no counter moved between the pages")
    return Window(increases, counters, gauges, seconds, covered, tuple(notes))


def usable(value: float) -> float:
    return value if abs(value) >= LEAST else 0.0


class _Counting:
    """Whether a sample of that name belongs to a counter: by its family's type, else by its ending."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types
        self._known: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = self._look(name)
        return self._known[name]

    def _look(self, name: str) -> bool:
        families = [name, *(name.removesuffix(end) for end in COUNTED if name.endswith(end))]
        kinds = [COUNTING[kind] for each in families if (kind := self._types.get(each)) in COUNTING]
        return kinds[0] if kinds else name.endswith(COUNTED)


def process_of(labels: Labels) -> Labels:
    return tuple(each for each in labels if each[0] in PROCESS)


def counted_on(bucket: Series, before: Mapping[Series, float], after: Mapping[Series, float]) -> bool:
    """Whether the bucket's histogram went on from where it was."""
    count = (
        f"{bucket[0].removesuffix('_bucket')}_count",
        tuple(each for each in bucket[1] if each[0] != "le"),
    )
    return after.get(count, 0.0) >= before.get(count, 0.0) and not _created_later(count, before, after)


def _created_later(series: Series, before: Mapping[Series, float], after: Mapping[Series, float]) -> bool:
    if series[0].endswith("_bucket"):
        return False  # its _count tells
    own = series[0]
    for end in COUNTED:
        own = own.removesuffix(end)
    created = (f"{own}_created", series[1])
    return created in before and after.get(created, 0.0) > before[created] + SAME_START_S


def _restarted(
    before: Mapping[Series, float], after: Mapping[Series, float], counters: Iterable[Series]
) -> set[Labels]:
    """Processes that began anew: they say so, or most of what moved fell. One that falls alone is a fault."""
    starts = [
        process_of(labels)
        for name, labels in after
        if name == STARTED and before.get((name, labels), after[name, labels]) < after[name, labels]
    ]
    moved: dict[Labels, int] = defaultdict(int)
    fell: dict[Labels, int] = defaultdict(int)
    for series in counters:
        if series not in before or series[0].endswith("_bucket"):
            continue
        process, value, had = process_of(series[1]), after[series], before[series]
        falls = value < had or _created_later(series, before, after)
        moved[process] += falls or value > had
        fell[process] += falls
    found = {each for each, number in fell.items() if 2 * number >= moved[each] and number}
    for start in starts:  # ranks of one process have a label more than the process itself
        found |= {each for each in {*moved, start} if set(start) <= set(each)}
    return found


def _since_restart(
    after: Mapping[Series, float], first: Page, second: Page, seconds: float | None
) -> tuple[float | None, str]:
    starts = [value for (name, _), value in after.items() if name == STARTED]
    said = "the server restarted within the window: what it counted before the restart is lost"
    if len(starts) == 1 and second.time_s is not None and second.time_s > starts[0]:
        covered = second.time_s - starts[0]
        covered = min(covered, seconds) if seconds is not None else covered
        return covered, f"{said}; figures are of the {covered:.0f} s since"
    return None, f"{said}, and how long it has run since is not known: no figure by the second is shown"
