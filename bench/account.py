"""What passes of the Qwen3-0.6B shape must compute and read, written out: independent of the engine's own."""

LAYERS, D_MODEL, D_FF, VOCABULARY = 28, 1024, 3072, 151_936
HEADS, KV_HEADS, HEAD_DIM = 16, 8, 128
BODY = LAYERS * (
    2 * D_MODEL * (HEADS + KV_HEADS) * HEAD_DIM + 3 * D_MODEL * D_FF
)  # multiplied for each token
HEAD = VOCABULARY * D_MODEL  # where logits are wanted; the embedding is the same matrix
NORMS = LAYERS * 2 * (D_MODEL + HEAD_DIM) + D_MODEL
PARAMETERS = BODY + HEAD + NORMS
KV_ITEMS = 2 * LAYERS * KV_HEADS * HEAD_DIM  # of one token


def prefill_flops(tokens: int) -> int:
    """One prompt, causal, logits of its last token only."""
    pairs = tokens * (tokens + 1) // 2
    return 2 * BODY * tokens + 2 * HEAD + 4 * LAYERS * HEADS * HEAD_DIM * pairs


def decode_flops(batch: int, context: int) -> int:
    return batch * (2 * (BODY + HEAD) + 4 * LAYERS * HEADS * HEAD_DIM * (context + 1))


def decode_bytes(batch: int, context: int, weight_bytes: float, kv_item_bytes: float) -> float:
    return weight_bytes + batch * context * KV_ITEMS * kv_item_bytes
