"""TensorRT-LLM's Prometheus page (tensorrt_llm/metrics/collector.py), with and without its prefix."""

from twophase.counters.engines.table import Engine, Named, first_of, histogram, one

TRTLLM = Engine(
    name="trtllm",
    title="TensorRT-LLM",
    prefixes=("trtllm_", "trtllm:", "pytrtllm:", ""),  # builds of 2025 have none
    counters={
        "prompt": first_of("prompt_tokens_total", "request_prompt_tokens_sum"),
        "cached": (
            (Named("prompt_cached_tokens_total"),),
            (Named("prompt_cache_hit_tokens_total"),),
        ),
        "computed": one("prefill_batch_tokens_sum"),  # context tokens of all iterations that had any
        "generated": first_of("generation_tokens_total", "request_generation_tokens_sum"),
        "requests": first_of("request_success_total", "e2e_request_latency_seconds_count"),
        "prefill_passes": one("prefill_batch_tokens_count"),
        "drafts": one("spec_decode_num_drafts_total"),
        "draft_tokens": one("spec_decode_num_draft_tokens_total"),
        "accepted_tokens": one("spec_decode_num_accepted_tokens_total"),
    },
    histograms={
        "ttft": histogram("time_to_first_token_seconds"),
        "tpot": histogram("time_per_output_token_seconds"),  # of requests, not of tokens
        "e2e": histogram("e2e_request_latency_seconds"),
        "queue": histogram("request_queue_time_seconds"),
        "prefill": histogram("request_prefill_time_seconds"),
        "decode": histogram("request_decode_time_seconds"),
        "inference": histogram("request_inference_time_seconds"),
        "prompt_length": histogram("request_prompt_tokens"),
        "output_length": histogram("request_generation_tokens"),
    },
    gauges={
        "running": histogram("num_requests_running"),
        "waiting": histogram("num_requests_waiting"),
        "kv_usage": histogram("kv_cache_utilization"),
        "decoding": histogram("num_generation_requests"),
    },
    notes=("TensorRT-LLM leaves out observations that are zero",),
)
