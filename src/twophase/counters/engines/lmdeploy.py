"""LMDeploy (lmdeploy/metrics): vLLM's set under its own prefix. Its iterations are each request's own."""

from twophase.counters.engines.table import Engine, first_of, histogram, one

LMDEPLOY = Engine(
    name="lmdeploy",
    title="LMDeploy",
    prefixes=("lmdeploy:", "lmdeploy_"),
    counters={
        "prompt": one("prompt_tokens_total"),
        "cached": one("cached_tokens_total"),
        "generated": one("generation_tokens_total"),
        "requests": first_of("request_prompt_tokens_count", "num_requests_succeeded"),
        "failed": one("num_requests_failed"),
        "drafts": one("spec_decode_num_drafts_total"),
        "draft_tokens": one("spec_decode_num_draft_tokens_total"),
        "accepted_tokens": one("spec_decode_num_accepted_tokens_total"),
    },
    histograms={
        "ttft": histogram("time_to_first_token_seconds"),
        "itl": histogram("time_per_output_token_seconds", "iter_token_latency"),
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
        "kv_usage": histogram("gpu_cache_usage_perc"),
    },
    notes=("LMDeploy does not count preemptions",),
)
