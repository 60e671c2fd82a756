"""TensorRT-LLM's iterations: whose seconds they were, what polling lost."""

import json

import pytest
from counter_pages import page, stored

from twophase.counters.iterations import later_than
from twophase.counters.reading import Beside, Reading, of_iterations, read_pair
from twophase.errors import InputError


def iteration(number: int, milliseconds: float, prompt: int, decodes: int) -> dict:
    batch = {"numCtxTokens": prompt, "numContextRequests": int(prompt > 0), "numGenRequests": decodes}
    return {"iter": number, "iterLatencyMS": milliseconds, "inflightBatchingStats": batch}


def read(*own: dict) -> Reading:
    found = page(json.dumps(own))
    return of_iterations("it", found.iterations, 1.0, ())


def test_a_mixed_iteration_is_prefills_but_for_what_decodes_take() -> None:
    found = read(
        iteration(1, 10, 0, 8), iteration(2, 10, 0, 8), iteration(3, 50, 2000, 8), iteration(4, 30, 500, 0)
    )
    own = found.picture
    assert own.prefill_gpu_s == pytest.approx(0.07) and own.decode_gpu_s == pytest.approx(0.03)
    assert own.prefill_share_of_busy == pytest.approx(0.7) and own.gpu_busy == pytest.approx(0.1)
    assert (own.computed_prompt_tokens, own.generation_tokens) == (2500, 24)
    assert own.mean_decode_batch == 8
    (best,) = found.shares
    assert best.prefill.low == pytest.approx(0.3 / 1.0) and best.prefill.high == pytest.approx(0.8)


def test_where_nothing_only_decodes_a_mixed_one_can_not_be_divided() -> None:
    found = of_iterations("it", stored("trtllm_metrics_iter.json").iterations, None, ())
    assert found.picture.computed_prompt_tokens == 2000 and found.picture.generation_tokens == 14
    assert found.picture.prefill_share_of_busy is None and not found.shares
    assert found.picture.kv_usage == pytest.approx(62_778 / 101_256)


def test_what_was_polled_away_is_said() -> None:
    found = read(iteration(1, 10, 0, 8), iteration(5, 10, 0, 8))
    assert any("3 iterations between them" in note for note in found.picture.notes)
    assert found.picture.gpu_busy is None and found.picture.prefill_share_of_busy == 0


def test_the_second_poll_counts() -> None:
    first = page(json.dumps([iteration(1, 10, 0, 8)]))
    second = page(json.dumps([iteration(1, 10, 0, 8), iteration(2, 20, 100, 0)]))
    (found,) = read_pair(first, second, 1, Beside())
    assert found.picture.computed_prompt_tokens == 100 and found.picture.decode_gpu_s == 0
    assert later_than(second.iterations, first.iterations) == first.iterations  # it began anew
    (found,) = read_pair(stored("trtllm_metrics_empty.json"), second, 1, Beside())
    assert found.picture.decode_steps == 1


def test_empty_lists_say_what_to_turn_on() -> None:
    empty = stored("trtllm_metrics_empty.json")
    with pytest.raises(InputError, match=r"enable_iter_perf_stats: true .* return_perf_metrics: true"):
        read_pair(empty, empty, 1, Beside())
    with pytest.raises(InputError, match="different kinds"):
        read_pair(empty, stored("vllm_t1.txt"), 1, Beside())
    two = page(json.dumps([iteration(1, 10, 0, 8), iteration(2, 10, 0, 8)]))
    with pytest.raises(InputError, match="are the same snapshot: a window needs two"):
        read_pair(two, two, 1, Beside())
    later = page(json.dumps([iteration(2, 10, 0, 8)]))
    with pytest.raises(InputError, match=r"no iteration that .* has not: give the earlier one first"):
        read_pair(two, later, 1, Beside())
