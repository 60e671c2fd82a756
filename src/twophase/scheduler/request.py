"""What goes into the scheduler and comes back to it: counts and ids, no token is ever looked at."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from twophase.errors import InputError


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence to be served. `id` is the caller's and comes back as `Span.sequence`."""

    id: int
    prompt_tokens: int
    max_output: int  # tokens after which it ends, unless it stops before
    priority: int = 0  # smaller is served first
    # One opaque 64-bit key for each full block of the prompt, from its start: equal keys mean equal KV.
    block_keys: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What bounds a pass and what bounds the system. All counts must be positive, else InputError."""

    blocks: int  # KV blocks in the pool
    context_length: int  # prompt and output of one sequence, in tokens
    max_sequences: int = 64  # sequences that hold KV blocks at once
    max_tokens: int | None = None  # rows of one pass; by default a whole prompt always fits
    block_size: int = 16  # tokens in a block
    prefix_cache: bool = True  # full blocks are found again by their keys

    def __post_init__(self) -> None:
        for name in ("blocks", "context_length", "max_sequences", "max_tokens", "block_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name.replace('_', ' ')} is {value}; it must be at least 1")

    @property
    def budget(self) -> int:
        """Rows that one pass may have, over all its spans."""
        return self.context_length if self.max_tokens is None else self.max_tokens


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """What running a pass gave. The scheduler takes the lengths of `tokens`; the values are the caller's.

    A span that wants logits keeps one token, or one and the accepted drafts where it verified some.
    """

    tokens: Mapping[int, Sequence[int]]  # by sequence, what it kept; absent means none
    stopped: Collection[int] = field(default=())  # sequences that met a stop token or string
    seconds: float = 0.0  # what the pass took, measured or modelled
    drafts: Mapping[int, int] = field(default_factory=dict)  # tokens to verify in a sequence's next pass
    block_keys: Mapping[int, Sequence[int]] = field(default_factory=dict)  # of blocks that `tokens` filled
