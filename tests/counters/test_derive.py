"""Derived figures by hand: differences, caches, transfers, speculation, lengths, workload classes."""

import pytest
from counter_pages import of_engine, reading

from twophase.counters.workload import workload

V = "vllm:"


def lines(**values: float) -> str:
    return "".join(f"{V}{name} {value}\n" for name, value in values.items())


def test_the_window_counts_not_the_lifetime() -> None:
    first = lines(
        time_to_first_token_seconds_sum=10, time_to_first_token_seconds_count=20,
        request_queue_time_seconds_sum=2, request_queue_time_seconds_count=20,
        prefix_cache_hits_total=100, prefix_cache_queries_total=200, prompt_tokens_total=200,
    )  # fmt: skip
    second = lines(
        time_to_first_token_seconds_sum=16, time_to_first_token_seconds_count=24,
        request_queue_time_seconds_sum=3, request_queue_time_seconds_count=24,
        prefix_cache_hits_total=140, prefix_cache_queries_total=260, prompt_tokens_total=260,
    )  # fmt: skip
    own = reading(first, second).picture
    assert own.ttft_mean_s == 1.5 and own.times["queue"].mean == 0.25
    assert own.cached_share == pytest.approx(40 / 60)


def test_a_decode_instance_computes_no_prompt() -> None:
    """vllm#27569: all prompt tokens come from a prefill instance: 53.2 a second received, none computed."""
    first = lines(prompt_tokens_total=0, prefix_cache_queries_total=0, prefix_cache_hits_total=0)
    first += lines(external_prefix_cache_hits_total=0)
    second = lines(prompt_tokens_total=532, prefix_cache_queries_total=532, prefix_cache_hits_total=0)
    own = reading(first, second + lines(external_prefix_cache_hits_total=532), 10).picture
    assert (own.prompt_tokens, own.computed_prompt_tokens, own.external_prompt_tokens) == (532, 0, 532)

    def by_source(computed: int, transferred: int) -> str:
        sources = {"local_compute": computed, "external_kv_transfer": transferred}
        rows = (f'{V}prompt_tokens_by_source_total{{source="{name}"}} {n}' for name, n in sources.items())
        return lines(prompt_tokens_total=computed + transferred) + "\n".join(rows) + "\n"

    own = reading(by_source(0, 0), by_source(0, 9)).picture
    assert (own.computed_prompt_tokens, own.cached_prompt_tokens, own.external_prompt_tokens) == (0, 9, 9)


def test_speculation() -> None:
    """100 drafts of 4 tokens, 250 accepted: 62.5 %, 3.5 tokens a step. ITL is by delivery, TPOT by token."""
    names = ("spec_decode_num_drafts_total", "spec_decode_num_draft_tokens_total")
    second = lines(**dict(zip(names, (100, 400), strict=True)), spec_decode_num_accepted_tokens_total=250)
    second += lines(generation_tokens_total=360, time_to_first_token_seconds_count=10)
    second += lines(time_to_first_token_seconds_sum=1)
    second += lines(inter_token_latency_seconds_count=100, inter_token_latency_seconds_sum=7)
    zero = "".join(f"{line.split()[0]} 0\n" for line in second.splitlines())
    own = reading(zero, second, 10).picture
    assert own.acceptance == 0.625 and own.tokens_per_step == 3.5
    assert own.tpot_mean_s == pytest.approx(7 / 350) and own.times["itl"].mean == pytest.approx(0.07)
    assert own.mean_running_decode == pytest.approx(0.7)


def test_steps_and_lengths() -> None:
    own = of_engine("tgi").picture
    assert own.mean_decode_batch == pytest.approx(149_400 / 10_000)  # (tokens - first ones) / decode batches
    assert (own.prompt_tokens_mean, own.output_tokens_mean) == (2000, 250)
    assert of_engine("llamacpp").picture.mean_decode_batch == pytest.approx(14.6)
    own = of_engine("sglang").picture
    assert own.context_tokens_mean == pytest.approx(31_500 / 14.5, rel=0.05)
    assert own.preemptions == 12 and own.mean_queue == pytest.approx(0.4)


def test_a_mean_since_the_start_becomes_one_of_the_window() -> None:
    """2 slots in 100 calls, 3 in 200: the second 100 had 4."""
    page = (
        "llamacpp:n_decode_total {}\nllamacpp:n_busy_slots_per_decode {}\nllamacpp:prompt_tokens_total {}\n"
    )
    own = reading(page.format(100, 2, 1), page.format(200, 3, 9)).picture
    assert own.mean_decode_batch == pytest.approx(4)


def test_gauges_that_a_scrape_empties_are_not_read() -> None:
    """llama.cpp#25128: rates come from counters."""
    page = (
        "llamacpp:prompt_tokens_total {0}\nllamacpp:tokens_predicted_total {0}\n"
        "llamacpp:tokens_predicted_seconds_total {1}\nllamacpp:predicted_tokens_seconds 0\n"
    )
    own = reading(page.format(0, 0), page.format(50, 1), 1).picture
    assert own.tpot_mean_s == pytest.approx(0.02)


def test_few_requests_are_said_to_be_few() -> None:
    names = ("prompt_tokens_total", "request_prompt_tokens_count", "request_prompt_tokens_sum")
    page = "".join(f"{V}{name} {{0}}\n" for name in names)
    assert any("only 7 requests" in note for note in reading(page.format(0), page.format(7)).picture.notes)
    assert not any("only" in note for note in of_engine("vllm").picture.notes)


@pytest.mark.parametrize(
    ("prompt", "output", "kind", "says"),
    [
        (300, 400, "chat", "decode dominates"),
        (2000, 250, "retrieval-augmented", "batch size decides"),
        (30_000, 200, "summarisation or agent", "prefill dominates"),
        (500, 5000, "chat", "longer than that"),
        (800, 5, "chat", "shorter than that"),
    ],
)
def test_workloads_of_the_textbook(prompt: float, output: float, kind: str, says: str) -> None:
    found = workload(prompt, output)
    assert found is not None and found.kind == kind and says in found.says


def test_no_lengths_no_class() -> None:
    assert workload(None, 5) is None and of_engine("llamacpp").workload is None
