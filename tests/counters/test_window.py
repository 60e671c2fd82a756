"""Between two pages: differences, resets, restarts, ranks, models, gauges."""

import pytest
from counter_pages import of_engine, page, reading, stored
from hypothesis import given
from hypothesis import strategies as st

from twophase.counters.reading import Beside, read_pair
from twophase.counters.source import seconds_between
from twophase.counters.window import Window, between
from twophase.errors import InputError

COUNTED = "# TYPE a_total counter\n# TYPE b_total counter\n# TYPE c_total counter\n"


def window(first: str, second: str, seconds: float | None = 10) -> Window:
    one, other = page(first).page, page(second).page
    assert one is not None and other is not None
    return between(one, other, seconds)


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=6), st.integers(0, 10**6))
def test_a_counter_that_goes_on_grows_by_the_difference(values: list[int], more: int) -> None:
    first = "".join(f"n{at}_total {value}\n" for at, value in enumerate(values))
    second = "".join(f"n{at}_total {value + more}\n" for at, value in enumerate(values))
    assert set(window(first, second).increases.values()) == {more}


def test_one_that_falls_alone_has_begun_anew() -> None:
    found = window("a_total 100\nb_total 5\nc_total 7\n", "a_total 3\nb_total 6\nc_total 9\n")
    assert {name: value for (name, _), value in found.increases.items()} == {
        "a_total": 3, "b_total": 1, "c_total": 2,
    }  # fmt: skip
    assert "a_total" in found.notes[0] and found.covered_s == 10


def test_where_most_fall_the_process_has_begun_anew() -> None:
    """c has caught up with what it was: a difference would be 1, the truth is 8."""
    found = window("a_total 100\nb_total 50\nc_total 7\n", "a_total 3\nb_total 6\nc_total 8\n")
    assert set(found.increases.values()) == {3, 6, 8}
    assert "restarted" in found.notes[0] and found.covered_s is None


def test_a_later_start_is_a_restart_though_nothing_fell() -> None:
    start = "process_start_time_seconds {}\na_total {} {}\n"
    found = window(start.format(1000, 5, 1000100000000), start.format(1000000160, 8, 1000000200000))
    assert found.increases["a_total", ()] == 8
    assert found.covered_s == 10  # 40 s since the start, which is more than the window
    found = window(start.format(1000, 5, 1000100000000), start.format(1000000194, 8, 1000000200000))
    assert found.covered_s == 6 and "of the 6 s since" in found.notes[0]


def test_created_tells_of_a_restart() -> None:
    found = window("a_total 5\na_created 1000\n", "a_total 8\na_created 2000\n")
    assert found.increases["a_total", ()] == 8
    found = window("a_total 5\na_created 1000\n", "a_total 8\na_created 1000\n")
    assert found.increases["a_total", ()] == 3


def test_one_rank_of_two_begins_anew() -> None:
    first = 'a_total{engine="0"} 100\na_total{engine="1"} 50\nb_total{engine="1"} 9\n'
    second = 'a_total{engine="0"} 130\na_total{engine="1"} 7\nb_total{engine="1"} 2\n'
    found = window(first, second)
    assert found.increases["a_total", (("engine", "0"),)] == 30
    assert found.increases["a_total", (("engine", "1"),)] == 7


def test_a_restarted_server() -> None:
    (found,) = read_pair(stored("vllm_t0.txt"), stored("vllm_restart_t1.txt"), 300, Beside())
    own = found.picture
    assert (own.prompt_tokens, own.computed_prompt_tokens, own.cached_prompt_tokens) == (9000, 7000, 2000)
    assert own.generation_tokens == 1300 and own.requests == 5 and own.cached_share == pytest.approx(2 / 9)
    assert own.window_s == 300 and own.covered_s is None
    assert own.mean_running_decode is None and own.mean_queue is None  # by the second of an unknown time
    assert any("restarted" in note for note in own.notes) and any("only 5 req" in note for note in own.notes)


def test_the_same_page_twice_and_one_that_stands_still() -> None:
    text = "vllm:prompt_tokens_total 5\nvllm:generation_tokens_total 5\n"
    own = reading(text, text)
    assert any("both pages are the same" in note for note in own.picture.notes)
    assert own.verdict == "Nothing was served in this window." and own.dominant == "unknown"
    own = reading(f"{text}x 1\n", f"{text}x 2\n")
    assert any("no counter moved" in note for note in own.picture.notes)


def test_ranks_of_data_parallelism_are_added_and_shares_averaged() -> None:
    """Two engines at 40 % with 11,577,333 KV tokens each: 40 %, and twice the tokens."""
    rank = (
        'vllm:prompt_tokens_total{{engine="{0}"}} {1}\nvllm:generation_tokens_total{{engine="{0}"}} {1}\n'
        'vllm:kv_cache_usage_perc{{engine="{0}"}} 0.4\nvllm:num_requests_running{{engine="{0}"}} 3\n'
        'vllm:cache_config_info{{engine="{0}",block_size="1",num_gpu_blocks="11577333"}} 1\n'
    )
    own = reading(rank.format(0, 10) + rank.format(1, 20), rank.format(0, 15) + rank.format(1, 45)).picture
    assert own.prompt_tokens == 30 and own.running == 6
    assert own.kv_usage == 0.4 and own.kv_tokens == 2 * 11_577_333


def test_ranks_of_tensor_parallelism_tell_the_same_work() -> None:
    def ranks(value: int) -> str:
        return "".join(
            f'sglang:realtime_tokens_total{{dp_rank="{dp}",tp_rank="{tp}",mode="decode"}} {value}\n'
            for dp in range(2)
            for tp in range(2 * dp, 2 * dp + 2)
        )

    assert reading(ranks(100), ranks(150)).picture.generation_tokens == 100


def test_models_are_told_apart() -> None:
    def both(one: int, other: int) -> str:
        return "".join(
            f'vllm:prompt_tokens_total{{model_name="{name}"}} {value}\nvllm:generation_tokens_total'
            f'{{model_name="{name}"}} {value}\n'
            for name, value in (("a", one), ("b", other))
        )

    found = read_pair(page(both(0, 0)), page(both(5, 7)), 10, Beside())
    assert [(each.picture.model, each.picture.prompt_tokens) for each in found] == [("a", 5), ("b", 7)]


def test_label_values_with_everything_in_them() -> None:
    first = 'vllm:prompt_tokens_total{model_name="a}\\"b,\\n=",engine="0"} 1\n'
    own = reading(first, first.replace("} 1", "} 11"))
    assert own.picture.model == 'a}"b,\n=' and own.picture.prompt_tokens == 10


def test_gauges_are_the_mean_of_both_pages() -> None:
    assert of_engine("vllm").picture.running == 14.5
    assert of_engine("vllm").picture.kv_usage == pytest.approx(0.62)


def test_a_bucket_that_falls_is_no_restart() -> None:
    first = 'h_bucket{le="1"} 9\nh_bucket{le="+Inf"} 10\nh_count 10\nh_sum 5\n'
    second = 'h_bucket{le="1"} 8\nh_bucket{le="+Inf"} 12\nh_count 12\nh_sum 8\n'
    found = window(first, second)
    assert found.increases["h_bucket", (("le", "1"),)] == -1 and not found.notes


def test_the_time_between_pages() -> None:
    pages = [page(f"a_total 1 {stamp}\n").page for stamp in (1764417600000, 1764417660000)]
    assert pages[0] is not None and pages[1] is not None
    assert seconds_between(pages[0], pages[1], None) == 60
    assert seconds_between(pages[0], pages[1], 30) == 30
    with pytest.raises(InputError, match="the other way round"):
        seconds_between(pages[1], pages[0], None)
    own = reading("vllm:prompt_tokens_total 1\n", "vllm:prompt_tokens_total 2\n", None).picture
    assert own.window_s is None and any("--window SECONDS" in note for note in own.notes)
