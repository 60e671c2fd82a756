"""What each row of a span sees, and what a pass takes from the cache, counted key by key."""

from twophase.model.mixers import Attending, Attention, CompressedAttention, Indexer, LatentAttention


def seen(own: Attending, row: int) -> int:
    """Entries that the row at a position (from 0) attends to, itself included."""
    if isinstance(own, CompressedAttention):
        keys = [at for at in range(row + 1) if row - at < own.window]
        return len(keys) + min(len(whole_groups(row, own)), own.top_k or row + 1)
    keys = list(range(row + 1))
    if isinstance(own, Attention) and own.window:
        keys = [at for at in keys if row - at < own.window]
    if isinstance(own, Attention) and own.chunk:
        keys = [at for at in keys if at // own.chunk == row // own.chunk]
    return min(len(keys), own.top_k or len(keys))


def whole_groups(row: int, own: CompressedAttention) -> list[int]:
    """Compressed entries that are made of tokens up to the row's."""
    return [group for group in range(row + 1) if own.ratio and (group + 1) * own.ratio <= row + 1]


def pairs(own: Attending, new: int, context: int) -> int:
    return sum(seen(own, row) for row in range(context, context + new))


def index_pairs(own: Attending, new: int, context: int) -> int:
    """An indexer scores all that a row could attend to."""
    rows = range(context, context + new)
    if isinstance(own, CompressedAttention):
        return sum(len(whole_groups(row, own)) for row in rows)
    return sum(row + 1 for row in rows)


def index_flops(own: Indexer | None, counted: int) -> int:
    return 2 * own.heads * own.dim * counted if own else 0


def flops(own: Attending, new: int, context: int) -> int:
    """2 a multiply-add: query on key, weight on value. Latent attention in the form that costs less."""
    both = pairs(own, new, context)
    index = index_flops(own.indexer, index_pairs(own, new, context))
    if isinstance(own, Attention):
        return 2 * own.heads * (own.head_dim + own.value_dim) * both + index
    if isinstance(own, CompressedAttention):
        return 2 * own.heads * (own.head_dim + own.head_dim) * both + index
    return min(decompressed(own, both, context), absorbed(own, both)) + index


def decompressed(own: LatentAttention, both: int, context: int) -> int:
    """Keys and values of the cached vectors are made anew, those of them that a row must attend to."""
    widened = (
        min(context, own.top_k - 1 if own.top_k else context)
        * own.kv_rank
        * own.heads
        * (own.nope_dim + own.v_dim)
    )
    return 2 * own.heads * (own.nope_dim + own.rope_dim + own.v_dim) * both + 2 * widened


def absorbed(own: LatentAttention, both: int) -> int:
    """Queries are as wide as the cached vector, and so is what comes out."""
    return 2 * own.heads * (own.kv_rank + own.rope_dim + own.kv_rank) * both
