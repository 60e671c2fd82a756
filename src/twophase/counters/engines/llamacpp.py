"""llama.cpp's server (tools/server/server-task.cpp)."""

from twophase.counters.engines.table import Engine, Named, histogram, one

LLAMACPP = Engine(
    name="llamacpp",
    title="llama.cpp",
    prefixes=("llamacpp:", "llamacpp_"),
    counters={
        "prompt": ((Named("prompt_tokens_total"), Named("prompt_tokens_cached_total")),),
        "computed": one("prompt_tokens_total"),
        "cached": one("prompt_tokens_cached_total"),
        "generated": one("tokens_predicted_total"),
        "generating_s": one("tokens_predicted_seconds_total"),
        "prefill_s": one("prompt_seconds_total"),
        "passes": one("n_decode_total"),
        "drafts": one("spec_decode_num_drafts_total"),
        "draft_tokens": one("spec_decode_num_draft_tokens_total"),
        "accepted_tokens": one("spec_decode_num_accepted_tokens_total"),
    },
    gauges={
        "running": histogram("requests_processing"),
        "waiting": histogram("requests_deferred"),
        "decoding": histogram("n_busy_slots_per_decode"),
    },
    lifetime={"decoding": "passes"},
    notes=(
        "generated tokens are counted when a slot is released, and llama.cpp counts no requests",
        "the time of a token includes each request's first, which prefill made: it is that much too low",
    ),
)
