"""From a window's series to an engine's quantities: of each model, over all ranks that do different work."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import TypeVar

from twophase.counters.engines.table import MEANS, Choices, Engine, Named
from twophase.counters.exposition import Series, number_of
from twophase.counters.histogram import Bucket, Histogram, merged
from twophase.counters.window import Window

MODEL = ("model_name", "model", "name")  # labels, the newest engines' first
REPEATED = ("tp_rank", "pp_rank", "moe_ep_rank")  # ranks that share one work: each tells all of it
NO_MODEL = ("", "undefined", "unknown")

C = TypeVar("C")
V = TypeVar("V")
Row = tuple[dict[str, str], float]
Rows = Mapping[str, list[Row]]  # by the sample's whole name


@dataclass(frozen=True, slots=True)
class Quantities:
    """Of one model in a window; what the engine does not tell is not there."""

    engine: Engine
    model: str  # "" where the page names none
    counters: Mapping[str, float]
    histograms: Mapping[str, Histogram]
    gauges: Mapping[str, float]


def models_of(engine: Engine, window: Window) -> list[str]:
    """Of the engine's series, in the page's order; [""] where none is named."""
    prefix = engine.prefixes[0]
    series = (*window.increases, *window.gauges)
    found = dict.fromkeys(model_of(dict(labels)) for name, labels in series if name.startswith(prefix))
    return [each for each in found if each] or [""]


def model_of(labels: Mapping[str, str]) -> str:
    named = next((labels[each] for each in MODEL if labels.get(each)), "")
    return "" if named in NO_MODEL else named


def quantities(engine: Engine, model: str, window: Window, alone: bool = True) -> Quantities:
    """alone: the page has no other model, and what names none is this one's, too."""
    wanted = (model, "") if alone else (model,)
    counted = _rows(window.increases, wanted)
    means, firsts, lasts = (
        _rows({series: each[at] for series, each in window.gauges.items()}, wanted) for at in range(3)
    )
    prefix = engine.prefixes[0]
    gauges = _gauges(engine, means)
    counters = _counters(engine, counted)
    if engine.lifetime:
        stand = _counters(engine, _rows(window.last, wanted))
        gauges |= _within(engine, counters, stand, _gauges(engine, firsts), _gauges(engine, lasts))
    pool = _pool_tokens(means.get(f"{prefix}cache_config_info", []))
    return Quantities(
        engine=engine,
        model=model,
        counters=counters,
        histograms=_present(engine.histograms, lambda names: _histogram(names, prefix, counted)),
        gauges=gauges | ({"kv_tokens": pool} if pool else {}),
    )


def _counters(engine: Engine, rows: Rows) -> dict[str, float]:
    return _present(engine.counters, lambda choices: _chosen(choices, engine.prefixes[0], rows))


def _within(
    engine: Engine,
    grown: Mapping[str, float],
    stand: Mapping[str, float],
    first: Mapping[str, float],
    last: Mapping[str, float],
) -> dict[str, float]:
    """Means over the window of gauges that are means since the start."""
    return {
        name: max((last[name] * stand[by] - first[name] * (stand[by] - grown[by])) / grown[by], 0.0)
        for name, by in engine.lifetime.items()
        if name in first and name in last and grown.get(by, 0.0) > 0
    }


def _gauges(engine: Engine, rows: Rows) -> dict[str, float]:
    return {
        name: value
        for name, names in engine.gauges.items()
        if (value := _gauge(names, engine.prefixes[0], rows, name in MEANS)) is not None
    }


def _present(table: Mapping[str, C], read: Callable[[C], V | None]) -> dict[str, V]:
    found = {name: read(choices) for name, choices in table.items()}
    return {name: value for name, value in found.items() if value is not None}


def _rows(values: Mapping[Series, float], models: Iterable[str]) -> Rows:
    wanted = set(models)
    found: dict[str, list[Row]] = defaultdict(list)
    for (name, labels), value in values.items():
        own = dict(labels)
        if model_of(own) in wanted:
            found[name].append((own, value))
    return {name: distinct(rows) for name, rows in found.items()}


def distinct(rows: list[Row]) -> list[Row]:
    """Of ranks that share one work, the lowest alone."""
    if not any(each in labels for labels, _ in rows for each in REPEATED):
        return rows
    kept: dict[tuple[tuple[str, str], ...], tuple[tuple[int, ...], Row]] = {}
    for labels, value in rows:
        others = tuple(sorted((name, own) for name, own in labels.items() if name not in REPEATED))
        rank = tuple(int(own) if (own := labels.get(name, "0")).isdecimal() else 0 for name in REPEATED)
        if others not in kept or rank < kept[others][0]:
            kept[others] = rank, (labels, value)
    return [row for _, row in kept.values()]


def _with(names: Named, prefix: str, rows: Rows, end: str = "") -> list[Row]:
    return [
        row
        for row in rows.get(f"{prefix}{names.name}{end}", [])
        if all(row[0].get(label, "") == value for label, value in names.labels.items())
    ]


def _chosen(choices: Choices, prefix: str, rows: Rows) -> float | None:
    for choice in choices:
        found = [row for each in choice for row in _with(each, prefix, rows)]
        if found:
            return sum(value for _, value in found)
    return None


def _gauge(names: tuple[Named, ...], prefix: str, rows: Rows, mean: bool) -> float | None:
    """Shares of several ranks are averaged, never added up."""
    for each in names:
        values = [value for _, value in _with(each, prefix, rows)]
        if values:
            return sum(values) / len(values) if mean else sum(values)
    return None


def _pool_tokens(rows: list[Row]) -> float:
    """vLLM tells its KV pool in labels, a rank each."""
    sizes = [(labels.get("block_size", ""), labels.get("num_gpu_blocks", "")) for labels, _ in rows]
    return sum(float(size) * float(blocks) for size, blocks in sizes if (size + blocks).isdecimal())


def _histogram(names: tuple[Named, ...], prefix: str, rows: Rows) -> Histogram | None:
    for each in names:
        counts = _with(each, prefix, rows, "_count")
        sums = _with(each, prefix, rows, "_sum")
        if counts and sums:
            total, seconds = (sum(value for _, value in own) for own in (counts, sums))
            return Histogram(total, seconds, _buckets(_with(each, prefix, rows, "_bucket")))
    return None


def _buckets(rows: list[Row]) -> tuple[Bucket, ...]:
    parts: dict[tuple[tuple[str, str], ...], list[Bucket]] = defaultdict(list)
    for labels, value in rows:
        bound = number_of(labels.get("le", ""))
        if bound is not None and not isnan(bound):
            others = tuple(sorted((name, own) for name, own in labels.items() if name != "le"))
            parts[others].append((bound, value))
    whole = [sorted(each) for each in parts.values() if any(bound == inf for bound, _ in each)]
    return merged(whole)
