"""Results as other tools write them: each sample against what its schema says by hand."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.errors import InputError
from twophase.results import Point, inconsistencies, read_points

DATA = Path(__file__).parents[1] / "data" / "results"


def points(name: str, **given: str) -> list[Point]:
    return read_points(DATA / name, given=given)


def written(tmp_path: Path, text: str, name: str = "rows.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def error_of(path: Path, **more: dict[str, str]) -> str:
    with pytest.raises(InputError) as caught:
        read_points(path, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_vllm_bench_serve() -> None:
    (point,) = points("vllm_serve.json")
    assert (point.model, point.gpu, point.tp) == ("meta-llama/Llama-3.1-8B-Instruct", "h100", 1)
    assert point.engine is None  # openai-chat is the client's protocol
    assert (point.concurrency, point.input_tokens, point.output_tokens) == (16, 204800 / 200, 25600 / 200)
    assert (point.ttft_s, point.tpot_s, point.e2e_s, point.statistic) == (0.19, 0.03, 4.0, "mean")
    assert (point.requests_per_s, point.output_tokens_per_s, point.total_tokens_per_s) == (4, 512, 4608)
    assert point.unknown["p99_ttft_ms"] == "310.0"
    assert not point.batch_is_resident


def test_fewer_prompts_than_clients_are_that_many_clients(tmp_path: Path) -> None:
    result = json.loads((DATA / "vllm_serve.json").read_text()) | {"num_prompts": 10}
    (point,) = read_points(written(tmp_path, json.dumps(result), "a.json"))
    assert point.concurrency == 10


def test_vllm_bench_throughput_counts_input_and_output() -> None:
    (point,) = points("vllm_throughput.json")
    assert (point.total_tokens_per_s, point.requests_per_s) == (1152000 / 50, 1000 / 50)
    assert point.output_tokens_per_s is None


def test_vllm_bench_latency_knows_only_a_time() -> None:
    (point,) = points("vllm_latency.json", batch="8", input_len="32", output_len="128", tp="2")
    assert (point.e2e_s, point.statistic, point.batch_is_resident) == (1.25, "mean", True)
    assert (point.concurrency, point.input_tokens, point.output_tokens, point.tp) == (8, 32, 128, 2)


def test_sglang_bench_serving() -> None:
    limited, open_loop = points("sglang_serving.jsonl")
    assert (limited.model, limited.tp, limited.weights, limited.kv) == ("Qwen/Qwen3-32B", 2, "fp8", None)
    # The lengths are those measured, not random_input_len.
    assert (limited.input_tokens, limited.output_tokens) == (40960 / 80, 38400 / 80)
    assert (limited.ttft_s, limited.tpot_s, limited.e2e_s) == (0.1, 0.0125, 6.087)
    assert (limited.input_tokens_per_s, limited.concurrency) == (640, 8)
    assert (open_loop.concurrency, open_loop.statistic) == (10, "mixed")  # observed; median TTFT, mean E2E
    assert (open_loop.ttft_s, open_loop.tpot_s, open_loop.e2e_s) == (0.08, 0.011, 2.5)


def test_sglang_static_batches() -> None:
    in_process, server, newer = points("sglang_one_batch.jsonl")
    for point in (in_process, server, newer):
        assert point.batch_is_resident
        assert (point.concurrency, point.input_tokens, point.output_tokens) == (16, 1024, 9)
        assert point.e2e_s == 0.66
        assert point.ttft_s == pytest.approx(0.5)
        # 16 · 9 tokens in 0.16 s is the server's 900 tokens/s; between 9 tokens are 8 gaps.
        assert point.tpot_s == pytest.approx(0.16 / 8)
        assert point.output_tokens_per_s is None  # theirs is of the decode time only
        assert point.total_tokens_per_s == pytest.approx(16 * (1024 + 9) / 0.66, rel=1e-6)
    assert newer.cached_tokens == 256


def test_guidellm_by_its_itl_not_by_its_tpot() -> None:
    concurrent, constant = points("guidellm_0_8.json")
    assert concurrent.model == "ibm-granite/granite-3.3-8b-instruct"
    assert (concurrent.ttft_s, concurrent.tpot_s, concurrent.e2e_s) == (0.216, 0.022, 3.01)
    assert (concurrent.concurrency, concurrent.requests_per_s) == (32, 10)
    assert (concurrent.output_tokens_per_s, concurrent.total_tokens_per_s) == (1280, 6400)
    assert constant.concurrency == 5.5  # in flight under a rate; 512 was only a cap


def test_older_guidellm() -> None:
    (point,) = points("guidellm_0_3.json")
    assert (point.model, point.concurrency, point.output_tokens) == ("Qwen/Qwen3-8B", 1, 97)
    assert (point.ttft_s, point.tpot_s, point.e2e_s) == (0.04, 0.01, 1.0)


@pytest.mark.parametrize("name", ["aiperf.json", "aiperf.csv"])
def test_aiperf(name: str) -> None:
    (point,) = points(name)
    assert (point.ttft_s, point.tpot_s, point.e2e_s, point.statistic) == (0.11, 0.03, 2.0, "mean")
    assert (point.input_tokens, point.output_tokens) == (256, 64)
    assert (point.output_tokens_per_s, point.output_tokens_per_s_per_user) == (1280, 33.5)
    assert point.requests_per_s == 20


def test_aiperf_names_model_and_clients_of_the_measured_phase() -> None:
    (point,) = points("aiperf.json")
    assert (point.model, point.concurrency) == ("openai/gpt-oss-20b", 40)


def test_genai_perf_counts_in_nanoseconds() -> None:
    (point,) = points("genai_perf.json")
    assert (point.ttft_s, point.tpot_s, point.e2e_s) == pytest.approx((0.05, 0.01, 1.5))
    assert (point.model, point.concurrency) == ("llama-3.1-8b-instruct", 3)


def test_silicon_tables_give_clients_and_not_the_batch_of_a_rank() -> None:
    ranks, pools, tp72 = points("silicon.csv")
    assert (ranks.concurrency, ranks.tp, ranks.dp, ranks.ep) == (512, 4, 4, 16)  # the batch is 128 a rank
    assert (ranks.ttft_s, ranks.tpot_s) == pytest.approx((0.7278426075309881, 0.03174447123107922))
    assert (ranks.gpu, ranks.engine, ranks.weights) == ("b300_sxm", "vllm", "fp8")
    assert pools.disaggregated
    assert (pools.tp, pools.dp, pools.concurrency, pools.weights) == (None, None, 4, "nvfp4")
    assert pools.unknown["decode_tp_size"] == "8"
    assert (tp72.tp, tp72.concurrency, tp72.disaggregated) == (72, 5632, False)


def test_speed_cases_say_which_tokens_they_count() -> None:
    by_case = {point.row: point for point in points("speed.csv")}
    assert by_case["SPD-001"].output_tokens_per_s_per_user == 104.9
    assert by_case["SPD-035"].output_tokens_per_s_per_gpu == 6818
    assert by_case["SPD-051"].output_tokens_per_s == 22714
    assert by_case["SPD-087"].total_tokens_per_s_per_gpu == 475
    assert by_case["SPD-127"].output_tokens_per_s == 35.98
    assert not by_case["SPD-161"].measured  # input tokens a node, many of them from a cache
    assert by_case["SPD-161"].unknown["tok_s"] == "73700"


def test_speed_cases_in_people_s_own_words() -> None:
    by_case = {point.row: point for point in points("speed.csv")}
    assert by_case["SPD-051"].concurrency is None
    assert by_case["SPD-051"].unknown["batch_or_concurrency"] == "max (offline, all queued)"
    assert by_case["SPD-099"].concurrency is None  # "rate 24/s" is no number of clients
    assert by_case["SPD-117"].concurrency == 200
    assert by_case["SPD-127"].concurrency == 5
    assert by_case["SPD-111"].output_tokens == 289
    assert (by_case["SPD-099"].weights, by_case["SPD-099"].kv) == ("fp4", "fp8")
    assert (by_case["SPD-161"].tp, by_case["SPD-161"].ep) == (None, 32)
    assert by_case["SPD-085"].statistic == "mean"
    assert by_case["SPD-131"].statistic == "median"
    assert by_case["SPD-131"].disaggregated
    resident = {name for name, point in by_case.items() if point.batch_is_resident}
    assert resident == {"SPD-001", "SPD-035", "SPD-111", "SPD-131"}  # batch 1, and static ones


def test_columns_of_any_name_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "model,prompt_time,token_time,tensor_parallel\nllama2-70b,196.25,54.88,2\n")
    assert "ttft_ms=prompt_time or ttft_s=prompt_time" in error_of(path)
    (point,) = read_points(path, columns={"ttft_ms": "prompt_time", "tpot_ms": "token_time"})
    assert (point.ttft_s, point.tpot_s, point.tp) == pytest.approx((0.19625, 0.05488, 2))


def test_what_the_row_says_comes_before_what_is_given(tmp_path: Path) -> None:
    path = written(tmp_path, "ttft_ms,tp\n10,4\n20,\n")
    first, second = read_points(path, given={"tp": "8", "gpu": "h100"})
    assert (first.tp, second.tp, first.gpu, second.gpu) == (4, 8, "h100", "h100")


def test_mean_before_median_and_tpot_before_itl(tmp_path: Path) -> None:
    path = written(tmp_path, "median_tpot_ms,mean_tpot_ms,mean_itl_ms\n1,2,3\n1,,3\n,,3\n")
    assert [(point.tpot_s, point.statistic) for point in read_points(path)] == [
        (0.002, "mean"),
        (0.001, "median"),
        (0.003, "mean"),
    ]


@pytest.mark.parametrize("text", ["ttft_ms\tmodel\n1,500.5\tx\n", "ttft_ms;model\n1500.5;x\n"])
def test_tabs_semicolons_and_thousands(tmp_path: Path, text: str) -> None:
    (point,) = read_points(written(tmp_path, text))
    assert (point.ttft_s, point.model) == (pytest.approx(1.5005), "x")


def test_rows_without_a_measure_are_kept(tmp_path: Path) -> None:
    first, second = read_points(written(tmp_path, "id,ttft_ms\na,5\nb,n/a\n"))
    assert (first.measured, second.measured, second.row) == (True, False, "b")


def test_a_time_of_zero_was_not_measured(tmp_path: Path) -> None:
    (point,) = read_points(written(tmp_path, "ttft_ms,tpot_ms\n5,0\n"))
    assert point.tpot_s is None


def test_a_list_of_objects_inside_an_object(tmp_path: Path) -> None:
    text = json.dumps({"results": [{"ttft_ms": 5}, {"ttft_ms": 6}]})
    assert [point.ttft_s for point in read_points(written(tmp_path, text))] == [0.005, 0.006]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("ttft_ms\n", "has no rows"),
        ("name,colour\na,red\n", "no column with a known time or rate"),
        ("ttft_ms\nfast\n", "line 2, column 'ttft_ms' is 'fast'"),
        ("ttft_ms\n5\n-3\n", "line 3, column 'ttft_ms' is '-3'"),
        ("tpot_ms\nnan\n", "line 2, column 'tpot_ms' is 'nan'"),
        ("tpot_ms\ninf\n", "line 2, column 'tpot_ms' is 'inf'"),
        ("ttft_ms,tp\n5,two\n", "line 2, column 'tp' is 'two'"),
        (f"ttft_ms,tp\n5,TP{'9' * 5000}\n", "line 2, column 'tp' is 'TP999"),
        ("ttft_ms,concurrency\n5,many\n", "line 2, column 'concurrency' is 'many'"),
        ("ttft_ms\n5,6\n", "line 2: 2 cells under 1 columns"),
        ("ttft_ms,ttft_ms\n5,6\n", "column 'ttft_ms' stands twice"),
        ("tok_s\n50\n", "which tokens"),
        ("throughput\n50\n", "which tokens"),
        ("tok_s,tok_s_meaning\n50,words\n", "known are output tok/s"),
        ('{"ttft_ms": 5', "is not JSON"),
        ('{"ttft_ms": 5}\n{"ttft_ms": \n', "line 2 is not JSON"),
        ("[5]", "item 1 is not an object"),
        ('[{"ttft_ms": NaN}]', "item 1, column 'ttft_ms' is 'nan'"),
        ('[{"ttft_ms": [1, 2]}]', "item 1, column 'ttft_ms' is '[1, 2]'"),
        ("[" * 100_000, "nested too deeply"),
        ('{"benchmarks": 5}', "benchmarks is not a list"),
    ],
)
def test_bad_files_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in error_of(written(tmp_path, text))


def test_names_that_are_wrong_with_those_that_would_be_right(tmp_path: Path) -> None:
    path = written(tmp_path, "first_token,b\n1,2\n")
    assert "did you mean first_token?" in error_of(path, columns={"ttft_ms": "first_tokens"})
    assert "did you mean ttft_ms" in error_of(path, columns={"tftt_ms": "first_token"})
    assert "unknown field 'colour'" in error_of(
        path, columns={"ttft_ms": "first_token"}, given={"colour": "red"}
    )
    assert "tp=x is 'x'" in error_of(path, columns={"ttft_ms": "first_token"}, given={"tp": "x"})


def test_no_file_and_no_text(tmp_path: Path) -> None:
    assert "can't be read" in error_of(tmp_path / "none.csv")
    assert "is a directory" in error_of(tmp_path)
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    assert "no UTF-8 text" in error_of(tmp_path / "binary.csv")


@given(st.floats(0.001, 1e6), st.integers(1, 10**6), st.sampled_from(["csv", "json", "jsonl"]))
def test_forms_say_the_same(tmp_path_factory: pytest.TempPathFactory, ttft: float, n: int, form: str) -> None:
    row = {"ttft_ms": ttft, "isl": n}
    text = {
        "csv": f"ttft_ms,isl\n{ttft!r},{n}\n",
        "json": json.dumps([row]),
        "jsonl": f"{json.dumps(row)}\n{json.dumps(row)}\n",
    }[form]
    first = read_points(written(tmp_path_factory.mktemp("forms"), text))[0]
    assert first.ttft_s == pytest.approx(ttft / 1000)
    assert first.input_tokens == n


@given(st.text(max_size=300))
def test_any_text_is_points_or_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("text") / "any"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        read_points(path)
    except InputError as error:
        assert str(path) in str(error)


KEYS = st.sampled_from(
    [
        *("ttft_ms", "tpot_ms", "tok_s", "tok_s_meaning", "concurrency", "tp", "weights", "disagg", "model"),
        *("benchmarks", "metrics", "config", "strategy", "input_config", "phases", "models", "items", "mean"),
        *(
            "time_to_first_token",
            "time_to_first_token_ms",
            "successful",
            "avg",
            "unit",
            "silicon_data_source",
        ),
        *("total_output_tokens", "completed", "server_info", "backend", "batch_size", "overall_throughput"),
        *("latency", "output_len", "output_throughput", "avg_latency", "latencies", "total_num_tokens"),
        *("requests_per_second", "max_concurrency", "num_prompts", "attention_dp_size", "output_tokens"),
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=8),
    max_leaves=25,
)


@given(st.dictionaries(KEYS, JSON, max_size=8) | st.lists(JSON, max_size=3))
def test_any_json_is_points_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, whole: dict[str, object] | list[object]
) -> None:
    path = written(tmp_path_factory.mktemp("json"), json.dumps(whole), "any.json")
    try:
        points = read_points(path)
    except InputError as error:
        assert str(path) in str(error)
        assert len(str(error).splitlines()) == 1
    else:
        for point in points:
            inconsistencies(point)
            assert all(isinstance(value, str) for value in point.unknown.values())
