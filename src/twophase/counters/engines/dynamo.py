"""NVIDIA Dynamo's front end. Its queue counts what is in prefill too, so there is no queueing time."""

from twophase.counters.engines.table import Engine, first_of, histogram, one

DYNAMO = Engine(
    name="dynamo",
    title="Dynamo's front end",
    prefixes=("dynamo_frontend_", "nv_llm_http_service_"),
    mark="input_sequence_tokens_sum",  # DYN_METRICS_PREFIX changes what stands before it
    counters={
        "prompt": one("input_sequence_tokens_sum"),
        "cached": one("cached_tokens_sum"),
        "generated": first_of("output_tokens_total", "output_sequence_tokens_sum"),
        "requests": first_of("output_sequence_tokens_count", "requests_total"),
    },
    histograms={
        "ttft": histogram("time_to_first_token_seconds"),
        "itl": histogram("inter_token_latency_seconds"),
        "e2e": histogram("request_duration_seconds"),
        "prompt_length": histogram("input_sequence_tokens"),
        "output_length": histogram("output_sequence_tokens"),
    },
    gauges={"running": histogram("inflight_requests")},
    notes=("this is Dynamo's front end: GPU seconds, KV use and preemptions are on its workers' pages",),
)
