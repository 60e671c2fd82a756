import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twophase.errors import InputError
from twophase.meter import run_folder
from twophase.meter.records import EventKind, Lag, LoadRun, Reply, StreamEvent, Target, TokenSource
from twophase.records import Outcome
from twophase.workload.traces import read_trace

times = st.floats(0, 1e7, allow_nan=False)
maybe = st.none() | times
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
events = st.builds(
    StreamEvent, at_s=times, kind=st.sampled_from(get_args(EventKind)), tokens=st.floats(0, 100)
)
replies = st.builds(
    Reply,
    number=st.integers(0, 1 << 40),
    point=texts,
    outcome=st.sampled_from(get_args(Outcome)),
    reason=texts,
    status=st.integers(0, 599),
    due_s=times,
    sent_s=times,
    first_event_s=maybe,
    first_token_s=maybe,
    first_answer_s=maybe,
    last_token_s=maybe,
    closed_s=maybe,
    prompt_tokens=st.integers(0, 1 << 40),
    cached_tokens=st.none() | st.integers(0, 1 << 40),
    output_tokens=times,
    first_tokens=times,
    hidden_tokens=times,
    token_source=st.sampled_from(get_args(TokenSource)),
    finish_reason=texts,
    events=st.lists(events, max_size=5).map(tuple),
    read_lag_s=times,
    server_times=st.lists(st.tuples(texts, times), max_size=2).map(tuple),
)
runs = st.builds(
    LoadRun,
    target=st.builds(Target, url=st.just("http://h:1"), model=texts, endpoint=st.just("chat")),
    began_at=texts,
    began_s=times,
    ended_s=times,
    partial=texts,
    replies=st.lists(replies, max_size=4).map(tuple),
    lag=st.builds(Lag, st.integers(0, 9), times, times, times, times, times),
    notes=st.lists(texts, max_size=2).map(tuple),
    facts=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    open_loop=st.booleans(),
    first_cohort=st.lists(st.integers(0, 99), max_size=3).map(tuple),
    gaps=st.lists(st.tuples(times, st.integers(1, 1 << 40)), max_size=3).map(tuple),
    steady=st.lists(st.tuples(texts, times, times), max_size=2).map(tuple),
)
RUN = LoadRun(
    Target("http://u:secret@h:1", "m", "chat", (("Authorization", "Bearer secret"),), "http://p:secret@q:2"),
    *("2026-01-02T03:04:05", 1.0, 2.0, "", ()),
    Lag(0, 0, 0, 0, 0, 0),
)


@given(runs)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_run_comes_back_exactly(tmp_path_factory: pytest.TempPathFactory, run: LoadRun) -> None:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run_folder.save(folder, run, {})
    assert run_folder.load(folder) == run


def test_nothing_secret_is_kept(tmp_path: Path) -> None:
    run_folder.save(tmp_path / "r", RUN, {"url": "x"})
    assert "secret" not in (tmp_path / "r" / "run.json").read_text()
    back = run_folder.load(tmp_path / "r")
    assert back.target.headers == (("Authorization", "(hidden)"),)
    assert (back.target.url, back.target.proxy) == ("http://h:1", "http://q:2")


def test_run_json_has_what_it_takes_to_repeat_the_run(tmp_path: Path) -> None:
    run_folder.save(tmp_path / "deep" / "r", RUN, {"seed": "abc", "rate": 2.0}, lambda run: run.target.model)
    document = run_folder.read_document(tmp_path / "deep" / "r")
    assert document["arguments"] == {"seed": "abc", "rate": 2.0}
    assert {"twophase", "python", "polars"} <= set(document["versions"])
    assert (tmp_path / "deep" / "r" / "report.html").read_text() == "m"


def test_a_folder_in_use_is_left_alone_and_an_empty_one_taken(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    run_folder.save(tmp_path / "r", RUN, {})
    with pytest.raises(InputError, match="there already"):
        run_folder.save(tmp_path / "r", RUN, {})
    assert [each.name for each in tmp_path.iterdir()] == ["r"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(run: LoadRun) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_folder.save(tmp_path / "r", RUN, {}, fail)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be written"):
        run_folder.save(tmp_path / "file" / "r", RUN, {})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", "{"),
        ("run.json", '{"format": 1}'),
        ("run.json", '{"format": 99}'),
        ("requests.parquet", "PAR1 not"),
        ("events.parquet", ""),
    ],
)
def test_a_damaged_folder_is_one_line(tmp_path: Path, name: str, content: str) -> None:
    run_folder.save(tmp_path / "r", RUN, {})
    (tmp_path / "r" / name).write_text(content)
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as refused:
        run_folder.load(tmp_path / "r")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("row", [(float("nan"), 1), (-1.0, 1), (0.1, 0), (None, 1), (0.1, None)])
def test_gaps_that_are_none_are_refused(tmp_path: Path, row: tuple[float | None, int | None]) -> None:
    run_folder.save(tmp_path / "r", RUN, {})
    table = pl.DataFrame([row], {"gap_s": pl.Float64, "count": pl.Int64}, orient="row")
    table.write_parquet(tmp_path / "r" / "gaps.parquet")
    with pytest.raises(InputError, match=r"gaps\.parquet is damaged"):
        run_folder.load(tmp_path / "r")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("began_s",), "x"),
        (("ended_s",), True),
        (("lag", "p99_s"), None),
        (("lag", "mean_s"), float("nan")),
        (("target", "url"), 5),
        (("notes",), [5]),
        (("facts",), [["loop", {}]]),
        (("steady",), [["a", 1, "b"]]),
        (("first_cohort",), ["a"]),
    ],
)
def test_values_of_another_kind_are_one_line(tmp_path: Path, place: tuple[str, ...], value: object) -> None:
    run_folder.save(tmp_path / "r", RUN, {})
    path = tmp_path / "r" / "run.json"
    document = inner = json.loads(path.read_text())
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"run\.json is damaged: TypeError: .* is no (text|number)"):
        run_folder.load(tmp_path / "r")


def test_columns_of_another_kind_are_one_line(tmp_path: Path) -> None:
    run_folder.save(tmp_path / "r", RUN, {})
    for name in ("requests.parquet", "events.parquet"):
        path = tmp_path / "r" / name
        table = pl.read_parquet(path)
        for column, kind in (("number", pl.String), (table.columns[-1], pl.String)):
            table.with_columns(pl.col(column).cast(kind)).write_parquet(path)
            with pytest.raises(InputError, match=f"{name} is damaged: its column {column} holds String"):
                run_folder.load(tmp_path / "r")
        table.drop("number").write_parquet(path)
        with pytest.raises(InputError, match=f"{name} is damaged: it has no column number"):
            run_folder.load(tmp_path / "r")
        table.write_parquet(path)
    requests = pl.read_parquet(tmp_path / "r" / "requests.parquet")
    requests.drop("asked_tokens").write_parquet(tmp_path / "r" / "requests.parquet")
    assert run_folder.load(tmp_path / "r") == replace(RUN, target=run_folder.load(tmp_path / "r").target)


def test_events_that_are_missing_are_noticed(tmp_path: Path) -> None:
    event = StreamEvent(1.0, "content", 1.0)
    reply = replace(
        Reply(
            *(1, "", "finished", "", 200, 0.0, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 5, None, 1.0, 1.0, 0.0),
            *("events", "length", ()),
        ),
        events=(event, event),
    )
    folder = tmp_path / "r"
    run_folder.save(folder, replace(RUN, replies=(reply,)), {})
    table = pl.read_parquet(folder / "events.parquet")
    table.head(1).write_parquet(folder / "events.parquet")
    with pytest.raises(InputError, match="damaged"):
        run_folder.load(folder)


def test_another_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no run"):
        run_folder.load(tmp_path)


def test_a_run_can_be_replayed(tmp_path: Path) -> None:
    reply = Reply(
        *(1, "", "finished", "", 200, 10.5, 10.6, 1.0, 1.0, 1.0, 1.0, 1.0, 55, None, 8.0, 1.0, 0.0),
        *("events", "length", ()),
    )
    run_folder.save(tmp_path / "r", replace(RUN, replies=(reply, replace(reply, due_s=11.25))), {})
    trace = read_trace(tmp_path / "r")
    assert trace.arrival_s.tolist() == [0, 0.75]
    assert trace.prompt_tokens.tolist() == [55, 55]
    assert trace.output_tokens.tolist() == [8, 8]
