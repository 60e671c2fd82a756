"""A window from Prometheus: resets, new and old processes, what its errors say."""

from collections.abc import Callable

import pytest
from fake_servers import prometheus, serving

from twophase.counters.fetch import Target
from twophase.counters.prometheus import prometheus_window
from twophase.counters.reading import Beside, Reading, of_window
from twophase.errors import InputError

NOW, WINDOW = 1_764_417_600.0, 2400.0
START = NOW - WINDOW


def named(name: str, **labels: str) -> dict[str, str]:
    return {"__name__": name, "instance": "a", "job": "vllm", **labels}


def readings(series, match: str = "") -> list[Reading]:
    with serving(prometheus(series)) as url:
        engines, window = prometheus_window(Target(url), WINDOW, match, NOW)
    return [each for engine in engines for each in of_window([engine], window, Beside())]


def test_a_counter_that_begins_anew_is_added_up() -> None:
    """1 a second all the time; at half-time it falls from 6,200 to 0: 2,400, not -2,600 nor 0."""

    def value(at: float) -> float:
        return 5000 + at - START if at < START + 1200 else at - START - 1200

    (found,) = readings([(named("vllm:prompt_tokens_total"), value)])
    assert found.picture.prompt_tokens == pytest.approx(2400, abs=10.1)  # a step's worth
    assert any("1 of 1 processes restarted" in note for note in found.picture.notes)


@pytest.mark.parametrize(("started", "counted"), [(START + 1190, 500), (START - 9e5, 400)])
def test_a_process_that_comes_later_counts_from_its_start(started: float, counted: float) -> None:
    """A new pod comes at 1,200 s with 100: they count if it began within the window."""

    def late(value: Callable[[float], float]) -> Callable[[float], float | None]:
        return lambda at: value(at) if at >= START + 1200 else None

    series = [
        (named("vllm:prompt_tokens_total"), lambda at: 7.0),
        (named("vllm:prompt_tokens_total", instance="b"), late(lambda at: 100 + (at - START - 1200) / 3)),
        (named("process_start_time_seconds", instance="b"), late(lambda at: started)),
        (named("process_start_time_seconds"), lambda at: START - 5e5),
    ]
    (found,) = readings(series)
    assert found.picture.prompt_tokens == pytest.approx(counted)


def test_a_series_that_a_running_process_adds_began_at_zero() -> None:
    name = "vllm:request_success_total"
    series = [
        (named(name, finished_reason="stop"), lambda at: (at - START) / 10),
        (named(name, finished_reason="abort"), lambda at: None if at < NOW - 600 else 30),
    ]
    (found,) = readings(series)
    assert found.picture.aborted == 30 and found.picture.requests == pytest.approx(270)


def test_gauges_are_averaged_over_the_window_and_histograms_read() -> None:
    counts = {"0.1": 1, "0.5": 3, "+Inf": 4}
    series = [
        (named("vllm:num_requests_running"), lambda at: 10.0 if at < START + 1200 else 20.0),
        (named("vllm:generation_tokens_total"), lambda at: at - START),
        *(
            (named("vllm:time_to_first_token_seconds_bucket", le=le), lambda at, n=n: n * (at - START))
            for le, n in counts.items()
        ),
        (named("vllm:time_to_first_token_seconds_count"), lambda at: 4 * (at - START)),
        (named("vllm:time_to_first_token_seconds_sum"), lambda at: 1.2 * (at - START)),
    ]
    (found,) = readings(series)
    own = found.picture
    assert own.running == pytest.approx(15, abs=0.1) and own.ttft_mean_s == pytest.approx(0.3)
    half = dict(own.times["ttft"].quantiles)[0.5]
    assert (half.low, half.high) == (0.1, 0.5) and half.value == pytest.approx(0.3)
    assert own.window_s == WINDOW and own.covered_s == pytest.approx(WINDOW)


def test_two_engines_and_a_short_history() -> None:
    series = [
        (named("vllm:prompt_tokens_total"), lambda at: at - START if at > NOW - 600 else None),
        (named("tgi_request_input_length_sum"), lambda at: 2 * (at - START) if at > NOW - 600 else None),
        (named("tgi_request_generated_tokens_sum", instance="c"), lambda at: 1.0),
    ]
    found = {each.picture.engine: each.picture for each in readings(series)}
    assert found["vllm"].prompt_tokens == pytest.approx(590, abs=11)
    assert found["tgi"].prompt_tokens == pytest.approx(1180, abs=21)
    (alone,) = readings(series[:1])
    assert any("Prometheus has 590 s of the 2400 s" in note for note in alone.picture.notes)


def test_labels_reach_the_query() -> None:
    asked = []
    inner = prometheus([(named("vllm:prompt_tokens_total"), lambda at: at)])

    def answer(path, query, headers):
        asked.append(query)
        return inner(path, query, headers)

    with serving(answer) as url:
        prometheus_window(Target(f"{url}/"), 600, '{namespace="prod", pod=~"a.*"}', NOW)
    assert asked[0]["match[]"] == ['{namespace="prod", pod=~"a.*"}']
    assert 'namespace="prod", pod=~"a.*"}' in asked[1]["query"][0]


@pytest.mark.parametrize("match", ["prod", 'a="b" or c', 'x="', "a=b"])
def test_what_is_no_selector(match: str) -> None:
    with pytest.raises(InputError, match="--match"):
        prometheus_window(Target("http://127.0.0.1:1"), 600, match, NOW)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, "<html>"), "is no Prometheus server"),
        ((404, "no"), "is no Prometheus server: status 404"),
        ((422, '{"status":"error","error":"too many samples"}'), "Prometheus says: too many samples"),
        ((200, '{"status":"success","data":[]}'), "has no series of the last 600 s"),
        ((200, '{"status":"success","data":["up"]}'), "has no counters of an engine"),
        ((200, '{"status":"success","data":["vllm:prompt_tokens_total"]}'), "no range of points"),
        *(
            ((200, f'{{"status":"success","data":{data}}}'), "no list of names")
            for data in ("null", "5", '"abc"', '{"a":1}', '[{"a":1}]', "[null]")
        ),
    ],
)
def test_other_answers(answer, said: str) -> None:
    with serving(lambda path, query, headers: answer) as url, pytest.raises(InputError) as refused:
        prometheus_window(Target(url), 600, "", NOW)
    assert said in str(refused.value)
