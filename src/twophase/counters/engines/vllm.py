"""vLLM, today's names and those of its v0 and early v1 engines (vllm/v1/metrics/loggers.py)."""

from twophase.counters.engines.table import Engine, Named, first_of, histogram, one

VLLM = Engine(
    name="vllm",
    title="vLLM",
    prefixes=("vllm:", "vllm_", "ray_vllm_", "aphrodite:"),
    counters={
        "prompt": one("prompt_tokens_total"),  # as received: cached and transferred ones too
        "computed": one("prompt_tokens_by_source_total", source="local_compute"),
        "external": one("prompt_tokens_by_source_total", source="external_kv_transfer"),
        "cached": (
            (Named("prompt_tokens_cached_total"),),
            (
                Named("prompt_tokens_by_source_total", {"source": "local_cache_hit"}),
                Named("prompt_tokens_by_source_total", {"source": "external_kv_transfer"}),
            ),
        ),
        "queries": first_of("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
        "hits": first_of("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
        "external_hits": one("external_prefix_cache_hits_total"),
        "generated": one("generation_tokens_total"),
        "requests": first_of("request_prompt_tokens_count", "request_success_total"),
        "aborted": one("request_success_total", finished_reason="abort"),
        "failed": one("request_success_total", finished_reason="error"),
        "preemptions": one("num_preemptions_total"),
        "drafts": one("spec_decode_num_drafts_total"),
        "draft_tokens": one("spec_decode_num_draft_tokens_total"),
        "accepted_tokens": one("spec_decode_num_accepted_tokens_total"),
        # Steps that gave tokens; a step of chunks alone is not counted.
        "decode_passes": one("iteration_tokens_total_count"),
        "flops": one("estimated_flops_per_gpu_total"),
        "read_bytes": one("estimated_read_bytes_per_gpu_total"),
        "written_bytes": one("estimated_write_bytes_per_gpu_total"),
    },
    histograms={
        "ttft": histogram("time_to_first_token_seconds"),
        "itl": histogram("inter_token_latency_seconds", "time_per_output_token_seconds"),
        "tpot": histogram("request_time_per_output_token_seconds"),
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
        "kv_usage": histogram("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    },
    itl_by_event=True,
    notes=("queue, prefill and decode times are of requests, told when they finish",),
)
