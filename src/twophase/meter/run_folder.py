"""A run on disk: run.json to repeat it, requests.parquet and events.parquet to compute anything from it.

Where no single tokens are kept, gaps.parquet has how long gaps were, and how often.
"""

import json
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import Any, cast

from twophase import __version__
from twophase.errors import InputError, damaged
from twophase.meter.parquet import Kind, write_parquet
from twophase.meter.records import Lag, LoadRun, Reply, StreamEvent, Target
from twophase.meter.tables import read_parquet

FORMAT = 1
HIDDEN = "(hidden)"
PACKAGES = ("httptools", "uvloop", "numpy", "polars")
TEXTS = ("point", "outcome", "reason", "token_source", "finish_reason")
COUNTS = ("number", "status", "prompt_tokens", "cached_tokens", "asked_tokens")
NOT_COLUMNS = ("events", "server_times")
GAP_COLUMNS: dict[str, Kind] = {"gap_s": "number", "count": "integer"}
EVENT_COLUMNS: dict[str, Kind] = {"number": "integer", "at_s": "number", "kind": "text", "tokens": "number"}
ESCAPED = "backslashreplace"  # what is no Unicode, of a path: as JSON writes it
ROWS = 1 << 15  # events of a row group


def save(
    folder: Path, run: LoadRun, arguments: Mapping[str, Any], page: Callable[[LoadRun], str] | None = None
) -> None:
    """Write a run's folder whole or not at all. `page` renders report.html."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already: give a folder that is new, or empty")
    beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    try:
        beside.mkdir(parents=True)
        document = json.dumps(described(run, arguments), indent=2, ensure_ascii=False)
        (beside / "run.json").write_text(document + "\n", encoding="utf-8", errors=ESCAPED)
        write_tables(beside, run)
        if page is not None:
            (beside / "report.html").write_text(page(run), encoding="utf-8", errors=ESCAPED)
        if folder.exists():
            folder.rmdir()
        os.replace(beside, folder)
    except OSError as error:
        raise InputError(f"{folder} can't be written: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def load(folder: Path) -> LoadRun:
    """What `save` wrote, but for the values of headers, which it hides."""
    document = read_document(folder)
    with damaged(folder / "run.json"):
        target = document["target"]
        run = LoadRun(
            target=Target(**{**target, "headers": pairs(target["headers"])}),
            began_at=document["began_at"],
            began_s=document["began_s"],
            ended_s=document["ended_s"],
            partial=document["partial"],
            replies=read_tables(folder),
            lag=Lag(**document["lag"]),
            notes=tuple(document["notes"]),
            facts=pairs(document["facts"]),
            open_loop=document["open_loop"],
            first_cohort=tuple(document["first_cohort"]),
            steady=tuple((point, begin, end) for point, begin, end in document["steady"]),
            gaps=read_gaps(folder / "gaps.parquet"),
        )
        require_kinds(run)
    return run


def require_kinds(run: LoadRun) -> None:
    """TypeError where what another hand wrote is not of the kind that a run has."""
    target = (run.target.url, run.target.model, run.target.endpoint)
    for text in (*target, run.began_at, run.partial, *run.notes, *chain(*run.facts)):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")
    spans = (second for _, *span in run.steady for second in span)
    for number in (run.began_s, run.ended_s, *asdict(run.lag).values(), *run.first_cohort, *spans):
        if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
            raise TypeError(f"{number!r} is no number")


def read_document(folder: Path) -> dict[str, Any]:
    """run.json: `arguments` and `versions` beside what `load` makes a run of."""
    path = folder / "run.json"
    if not path.is_file():
        raise InputError(f"{folder} is no run: give a folder that twophase bench, diagnose or simulate wrote")
    with damaged(path):
        document = json.loads(path.read_text(encoding="utf-8"))
        found = document["format"]
    if found != FORMAT:
        raise InputError(f"{path} has format {found}, this version reads {FORMAT}")
    return cast(dict[str, Any], document)


def described(run: LoadRun, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Everything but the replies, as JSON has it; nothing secret."""
    target = asdict(run.target)
    target["url"] = without_password(run.target.url)
    target["proxy"] = run.target.proxy and without_password(run.target.proxy)
    target["headers"] = [(name, HIDDEN) for name, _ in run.target.headers]
    return {
        "format": FORMAT,
        "arguments": dict(arguments),
        "versions": versions(),
        "target": target,
        "began_at": run.began_at,
        "began_s": run.began_s,
        "ended_s": run.ended_s,
        "partial": run.partial,
        "lag": asdict(run.lag),
        "notes": run.notes,
        "facts": run.facts,
        "open_loop": run.open_loop,
        "first_cohort": run.first_cohort,
        "steady": run.steady,
    }


def versions() -> dict[str, str]:
    found = {"twophase": __version__, "python": platform.python_version(), "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def without_password(url: str) -> str:
    scheme, between, rest = url.partition("://")
    return f"{scheme}{between}{rest.rpartition('@')[2]}"


def write_tables(folder: Path, run: LoadRun) -> None:
    columns = request_columns()
    names = [name for name in columns if name not in NOT_COLUMNS]
    rows = [[getattr(reply, name) for reply in run.replies] for name in names]
    times = [json.dumps(reply.server_times) for reply in run.replies]
    counts = [len(reply.events) for reply in run.replies]
    write_parquet(
        folder / "requests.parquet",
        columns,
        [[*rows, times, counts]] if run.replies else [],
    )
    write_parquet(folder / "events.parquet", EVENT_COLUMNS, event_groups(run.replies))
    if run.gaps:
        gaps = [list(each) for each in zip(*run.gaps, strict=True)]
        write_parquet(folder / "gaps.parquet", GAP_COLUMNS, [gaps])


def request_columns() -> dict[str, Kind]:
    names = [each.name for each in fields(Reply) if each.name not in NOT_COLUMNS]
    return {**{name: kind_of(name) for name in names}, "server_times": "text", "events": "integer"}


def require_columns(path: Path, table: Any, columns: Mapping[str, Kind]) -> None:
    """InputError where one is missing or of another kind; those with a default came with later versions."""
    later = {each.name for each in fields(Reply) if each.default is not MISSING}
    for name, kind in columns.items():
        if name not in table.columns:
            if name in later:
                continue
            raise InputError(f"{path} is damaged: it has no column {name}")
        found = table.schema[name]
        right = found.is_integer() if kind == "integer" else found.is_float() if kind == "number" else True
        if not right or (kind == "text") != (str(found) == "String"):
            raise InputError(f"{path} is damaged: its column {name} holds {found}, not a {kind}")


def kind_of(name: str) -> Kind:
    return "text" if name in TEXTS else "integer" if name in COUNTS else "number"


def event_groups(replies: Sequence[Reply]) -> Iterator[list[list[Any]]]:
    """The columns of some replies' events at a time: of millions of events, all at once would not fit."""
    events = chain.from_iterable(
        ((reply.number, event.at_s, event.kind, event.tokens) for event in reply.events) for reply in replies
    )
    while group := list(islice(events, ROWS)):
        yield [list(column) for column in zip(*group, strict=True)]


def read_tables(folder: Path) -> tuple[Reply, ...]:
    """Replies in the order of their rows, each with as many of the events as it says."""
    table = read_parquet(folder / "events.parquet")
    require_columns(folder / "events.parquet", table, EVENT_COLUMNS)
    with damaged(folder / "events.parquet"):
        columns = (table[name].to_list() for name in ("at_s", "kind", "tokens"))
        events = [StreamEvent(*row) for row in zip(*columns, strict=True)]
    requests = read_parquet(folder / "requests.parquet")
    require_columns(folder / "requests.parquet", requests, request_columns())
    rows = requests.to_dicts()
    with damaged(folder / "requests.parquet"):
        replies = []
        begin = 0
        for row in rows:
            end = begin + row.pop("events")
            times = tuple((name, seconds) for name, seconds in json.loads(row.pop("server_times")))
            replies.append(Reply(**row, server_times=times, events=tuple(events[begin:end])))
            begin = end
        if begin != len(events):
            raise ValueError(f"{begin} events expected, {len(events)} in events.parquet")
    return tuple(replies)


def read_gaps(path: Path) -> tuple[tuple[float, int], ...]:
    """None where single tokens were kept instead."""
    if not path.exists():
        return ()
    table = read_parquet(path)
    require_columns(path, table, GAP_COLUMNS)
    found = tuple(table.select(*GAP_COLUMNS).iter_rows())
    with damaged(path):
        if not all(0 <= seconds < float("inf") and number > 0 for seconds, number in found):
            raise ValueError("gaps from 0 s on, and how often each, are expected")
    return found


def pairs(rows: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in rows)
