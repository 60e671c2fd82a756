"""The parser: prometheus_client's own pages, both formats, every label value, and no crash on any bytes."""

import math

import pytest
from counter_pages import PAGES, stored
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import generate_latest as classic
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from twophase.counters.exposition import Damaged, parse
from twophase.counters.page import read_page
from twophase.errors import InputError

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(max_size=12), max_size=4
)
SERIES = st.tuples(NAMES, LABELS.map(lambda own: tuple(sorted(own.items()))))
VALUES = st.floats(allow_nan=False)


def written(name: str, labels: tuple[tuple[str, str], ...], value: float, end: str) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    inner = ",".join(f'{label}="{escaped(own)}"' for label, own in labels)
    return f"{name}{{{inner}}} {value!r}{end}" if inner else f"{name} {value!r}{end}"


@given(
    st.dictionaries(SERIES, VALUES, min_size=1, max_size=12),
    st.sampled_from(("", " 1764417600123", " 1764417600.5", ' # {trace_id="a}b"} 1.0 1764417600.0')),
)
def test_any_page_comes_back(samples: dict, end: str) -> None:
    text = "\n".join(written(name, labels, value, end) for (name, labels), value in samples.items())
    found = parse(f"# HELP a b\n# TYPE a counter\n{text}\n# EOF\n")
    assert found.samples == samples and not found.damaged
    assert found.time_s is None or found.time_s == pytest.approx(1764417600, abs=1)


@given(st.binary(max_size=400))
def test_no_bytes_do_more_than_be_refused(content: bytes) -> None:
    try:
        read_page(content, "it")
    except InputError as error:
        assert str(error).startswith("it")


@given(st.text(alphabet='ab{}"=,\\# \n1.e+-NaI_:[]', max_size=80))
def test_nor_do_letters_that_mean_something(text: str) -> None:
    found = parse(text)
    lines = [line for line in text.split("\n") if line.strip(" \t\r") and line.strip(" \t\r")[0] != "#"]
    assert len(found.samples) + len(found.damaged) == len(lines)


@pytest.mark.parametrize("write", [classic, openmetrics])
def test_pages_of_prometheus_client(write) -> None:
    registry = CollectorRegistry()
    counter = Counter("vllm:tokens", "Told.", ["model_name"], registry=registry)
    counter.labels('a"}\\b\nc,=').inc(7, {"trace_id": "x"} if write is openmetrics else None)
    Gauge("kv", "Told.", registry=registry).set(math.inf)
    histogram = Histogram("ttft", "Told.", buckets=(0.1, 1), registry=registry)
    histogram.observe(0.5)
    found = parse(write(registry).decode())
    assert not found.damaged
    name = "vllm:tokens_total" if write is classic else "vllm_tokens_total"  # its OpenMetrics knows no colon
    assert found.samples[name, (("model_name", 'a"}\\b\nc,='),)] == 7
    assert found.samples["kv", ()] == math.inf
    assert found.samples["ttft_bucket", (("le", "1.0"),)] == 1
    assert found.samples["ttft_sum", ()] == 0.5


@pytest.mark.parametrize("name", sorted(each.name for each in PAGES.glob("*_t?.txt")))
def test_the_same_samples_as_prometheus_clients_parser(name: str) -> None:
    text = (PAGES / name).read_text()
    theirs = {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }
    own = stored(name).page
    assert own is not None and not own.damaged
    # Theirs gives every counter the ending _total, which some engines' counters lack.
    assert {
        (name.removesuffix("_total"), labels): value for (name, labels), value in own.samples.items()
    } == {(name.removesuffix("_total"), labels): value for (name, labels), value in theirs.items()}


def test_openmetrics_with_an_exemplar_and_created() -> None:
    own = stored("edge_openmetrics.txt").page
    assert own is not None
    labels = (("engine", "0"), ("model_name", "m"))
    assert own.samples == {
        ("vllm:prompt_tokens_total", labels): 100.0,
        ("vllm:prompt_tokens_created", labels): 1.7644e9,
    }
    assert own.types == {"vllm:prompt_tokens": "counter"}


def test_quoted_names_not_numbers_and_crlf() -> None:
    found = parse('{"a.b c",x="1"} 2\r\nn NaN\r\ni{} -Inf\r\nu{l="\u2028"} 1\r\n')
    assert found.samples["a.b c", (("x", "1"),)] == 2
    assert math.isnan(found.samples["n", ()]) and found.samples["i", ()] == -math.inf
    assert found.samples["u", (("l", "\u2028"),)] == 1


def test_damaged_lines_are_named() -> None:
    found = parse('a 1\na 2\nb{x="1" 3\nc 1_000\n\nd{x="1",x="2"} 1\ne 5\n')
    assert [each.line for each in found.damaged] == [2, 3, 4, 6]
    assert found.damaged[0] == Damaged(2, "a series that the page has already: a 2")
    assert set(found.samples) == {("a", ()), ("e", ())} and found.samples["a", ()] == 1
    read = read_page(b"a 1\nb 2\nc 3\nd oops\n", "it")
    assert read.notes == ("it: left out line 4, no sample: d oops",)
    assert read_page(b"a 1\nb 2", "it").notes == ("it does not end in a line feed: it may be cut off",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"<!DOCTYPE html><html>", "it is an HTML page"),
        (b'"# HELP llamacpp:prompt_tokens_total\\n"', "a malformed exposition, text inside a JSON string"),
        (b'{"error":{"message":"Start it with `--metrics`"}}', "start it as `llama-server --metrics`"),
        (b'{"choices":[],"timings":{"prompt_n":5}}', "the answer to one request"),
        (b'{"detail": 1', "neither counters nor whole JSON"),
        (b"[1]", "entry 0 of the list is no iteration"),
        (b"oops\nfoo bar baz\n", "line 1 of 2 that can't be read"),
        (b"# nothing\n", "holds no sample"),
    ],
)
def test_what_is_no_page(content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("`", "`")) as refused:
        read_page(content, "it")
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_huge_page_is_read_in_time_linear_in_its_length() -> None:
    lines = "".join(f'h_bucket{{model_name="m",pod="{i}",le="0.5"}} {i}\n' for i in range(100_000))
    found = parse(lines)
    assert len(found.samples) == 100_000
    assert len(parse(f'a{{x="{"y" * 1_000_000}"}} 1\n' + '{"' * 100_000).samples) == 1
    spaces = " " * 100_000
    for line in (f"a{spaces}b 1 1 1", f"a{spaces}1{spaces}1{spaces}1", "a" * 200_000, 'a{x="1",' * 50_000):
        assert len(parse(line).damaged) == 1
