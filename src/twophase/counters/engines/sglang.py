"""SGLang (srt/metrics/collector.py). Live counters first: the others are added when a request finishes."""

from twophase.counters.engines.table import Engine, Named, first_of, histogram, one

LIVE = "realtime_tokens_total"

SGLANG = Engine(
    name="sglang",
    title="SGLang",
    prefixes=("sglang:", "sglang_"),
    counters={
        "prompt": (
            (Named(LIVE, {"mode": "prefill_compute"}), Named(LIVE, {"mode": "prefill_cache"})),
            (Named("prompt_tokens_total"),),
        ),
        "computed": one(LIVE, mode="prefill_compute"),
        "cached": (
            (Named(LIVE, {"mode": "prefill_cache"}),),
            (Named("cached_tokens_total", {"cache_source": "total"}),),
            (Named("cached_tokens_total"),),
        ),
        "generated": (
            (Named(LIVE, {"mode": "decode"}),),
            (Named("generation_tokens_total"),),
        ),
        "requests": first_of("num_requests_total", "e2e_request_latency_seconds_count"),
        "aborted": one("num_aborted_requests_total"),
        "preemptions": one("num_retracted_requests_total"),
        "wasted_tokens": (
            (
                Named("num_retracted_requests_input_tokens_total"),
                Named("num_retracted_requests_output_tokens_total"),
            ),
        ),
        "prefill_s": (
            (
                Named("forward_execution_seconds_total", {"category": "extend"}),
                Named("forward_execution_seconds_total", {"category": "split_prefill"}),
            ),
        ),
        "decode_s": (
            (
                Named("forward_execution_seconds_total", {"category": "decode"}),
                Named("forward_execution_seconds_total", {"category": "target_verify"}),
            ),
        ),
        "idle_s": one("scheduler_idle_seconds_total"),
        "flops": one("estimated_flops_per_gpu_total"),
        "read_bytes": one("estimated_read_bytes_per_gpu_total"),
        "written_bytes": one("estimated_write_bytes_per_gpu_total"),
    },
    histograms={
        "ttft": histogram("time_to_first_token_seconds"),
        "itl": histogram("inter_token_latency_seconds", "time_per_output_token_seconds"),
        "tpot": histogram("request_time_per_output_token_seconds"),
        "e2e": histogram("e2e_request_latency_seconds"),
        "queue": histogram("queue_time_seconds"),
        "prefill": (Named("per_stage_req_latency_seconds", {"stage": "prefill_forward"}),),
    },
    gauges={
        # With priorities a series each comes beside the one of all, whose label is empty.
        "running": (Named("num_running_reqs", {"priority": ""}), Named("num_running_reqs")),
        "waiting": (Named("num_queue_reqs", {"priority": ""}), Named("num_queue_reqs")),
        "kv_usage": histogram("token_usage"),
        "kv_tokens": histogram("max_total_num_tokens"),
        "context_tokens": histogram("decode_sum_seq_lens"),
        "acceptance": histogram("spec_accept_rate"),
        "accepted_length": histogram("spec_accept_length"),
    },
    exact="SGLang's device timer; batches that mix chunks with decodes count as prefill",
)
