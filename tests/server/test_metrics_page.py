"""The page is Prometheus', and its counts are those of the requests made."""

from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import PASS_S, Running, running, stub_engine

# what dashboards made for vLLM look for
VLLM = {
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "num_preemptions_total"),
    *("prefix_cache_queries_total", "prefix_cache_hits_total", "prompt_tokens_total"),
    *("generation_tokens_total", "request_success_total", "cache_config_info"),
    *("time_to_first_token_seconds_bucket", "inter_token_latency_seconds_bucket"),
    *("request_time_per_output_token_seconds_sum", "e2e_request_latency_seconds_count"),
    *("request_queue_time_seconds_sum", "request_prefill_time_seconds_sum"),
    *("request_decode_time_seconds_sum", "request_inference_time_seconds_sum"),
    *("request_prompt_tokens_sum", "request_generation_tokens_sum", "iteration_tokens_total_sum"),
    *("spec_decode_num_drafts_total", "spec_decode_num_draft_tokens_total"),
    "spec_decode_num_accepted_tokens_total",
}


def samples(server: Running, prefix: str) -> Mapping[tuple[str, str], float]:
    """(name without prefix, phase or reason or bound) of every sample."""
    page = server.http.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=")
    found = {}
    for family in text_string_to_metric_families(page.text):
        assert family.documentation
        for sample in family.samples:
            own = dict(sample.labels)
            assert (own.pop("model_name"), own.pop("engine")) == ("stub", "0")
            key = sample.name.removeprefix(f"{prefix}:"), "".join(own.values())
            assert key not in found
            found[key] = sample.value
    return found


@pytest.mark.parametrize("prefix", ["twophase", "vllm"])
def test_counts_are_those_of_the_requests(prefix: str) -> None:
    with running(stub_engine(), metrics_prefix=prefix) as server:
        before = samples(server, prefix)
        assert {name for name, _ in before} >= VLLM
        assert not any(value for (name, _), value in before.items() if name.endswith(("_total", "_count")))
        made = [(40, 5, 1), (40, 1, 1), (7, 20, 3)]  # prompt, output, choices
        for prompt, output, n in made:
            body = {"prompt": [prompt] * prompt, "max_tokens": output, "n": n}
            server.http.post("/v1/completions", json=body).raise_for_status()
        now = samples(server, prefix)

    prompts = sum(prompt * n for prompt, _, n in made)
    outputs = sum(output * n for _, output, n in made)
    sequences = sum(n for _, _, n in made)
    assert now["prompt_tokens_total", ""] == now["prefix_cache_queries_total", ""] == prompts
    assert now["prefix_cache_hits_total", ""] == now["prompt_tokens_cached_total", ""] == 32  # of 40
    assert now["generation_tokens_total", ""] == outputs
    assert now["request_success_total", "length"] == sequences
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_prompt_tokens"):
        assert now[f"{name}_count", ""] == now[f"{name}_bucket", "+Inf"] == sequences
    assert now["request_prompt_tokens_sum", ""] == prompts
    assert now["request_generation_tokens_sum", ""] == outputs
    assert now["inter_token_latency_seconds_count", ""] == outputs - sequences
    assert now["request_time_per_output_token_seconds_count", ""] == 1 + 3
    passes = 5 + 1 + 20
    assert now["iteration_tokens_total_count", ""] == passes
    rows = prompts - 32 + outputs - sequences
    assert now["iteration_tokens_total_sum", ""] == rows
    assert now["num_requests_running", ""] == now["kv_cache_usage_perc", ""] == 0
    # each pass took what it was made to take, and no part of it is lost between the phases
    seconds = [now["phase_seconds_total", phase] for phase in ("prefill", "decode")]
    assert seconds == pytest.approx([3 * PASS_S, 23 * PASS_S])
    assert now["phase_tokens_total", "prefill"] == prompts - 32
    assert now["phase_tokens_total", "decode"] == outputs - sequences
    # request times add up
    parts = sum(now[f"request_{part}_time_seconds_sum", ""] for part in ("queue", "prefill", "decode"))
    assert parts == pytest.approx(now["e2e_request_latency_seconds_sum", ""])
    assert now["phase_mbu", "decode"] > 0


def test_buckets_grow() -> None:
    with running(stub_engine()) as server:
        server.http.post("/v1/completions", json={"prompt": [1], "max_tokens": 9}).raise_for_status()
        found = samples(server, "twophase")
    own = [
        (float(bound), value)
        for (name, bound), value in found.items()
        if name.startswith("inter_token_latency_seconds_b")
    ]
    assert sorted(own) == own
    assert [value for _, value in own] == sorted(value for _, value in own)
    assert own[-1] == (float("inf"), 8)
    assert sum(value == 8 for _, value in own) > 5  # all gaps are short
