"""Text Generation Inference v3 (backends/v3/src/backend.rs)."""

from twophase.counters.engines.table import Engine, first_of, histogram, one

FORWARD = "batch_forward_duration"  # batch_decode_duration is the post-processing of tokens, not a phase

TGI = Engine(
    name="tgi",
    title="TGI",
    prefixes=("tgi_",),
    counters={
        "prompt": one("request_input_length_sum"),
        "generated": one("request_generated_tokens_sum"),
        "requests": first_of("request_success", "request_generated_tokens_count"),
        "failed": one("request_failure"),
        "prefill_s": one(f"{FORWARD}_sum", method="prefill"),
        "decode_s": one(f"{FORWARD}_sum", method="decode"),
        "prefill_passes": one(f"{FORWARD}_count", method="prefill"),
        "decode_passes": one(f"{FORWARD}_count", method="decode"),
        "accepted_tokens": one("request_skipped_tokens_sum"),
    },
    histograms={
        "e2e": histogram("request_duration"),
        "queue": histogram("request_queue_duration"),
        "inference": histogram("request_inference_duration"),
        "prompt_length": histogram("request_input_length"),
        "output_length": histogram("request_generated_tokens"),
        "batch": histogram("batch_next_size"),
    },
    gauges={"running": histogram("batch_current_size"), "waiting": histogram("queue_size")},
    exact="TGI's forward durations of prefill and decode batches",
    notes=("TGI counts prompt tokens at validation and does not tell cached ones, TTFT, ITL or KV use",),
)
