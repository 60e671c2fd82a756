"""The shape of passes as arrays: what is counted for one pass is counted for a million at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spans:
    """[..., spans] each: passes along the leading axes, the like spans of a pass along the last."""

    new: Ints  # rows of a span
    context: Ints  # tokens that lie in the cache before them
    count: Ints  # how many spans are like this one
    logits: Ints  # rows of a span whose logits are wanted


def prefills(prompt_tokens: ArrayLike, context: ArrayLike = 0, sequences: ArrayLike = 1) -> Spans:
    """Passes of `sequences` prompts each, alike; the arguments broadcast, and so do the results' axes."""
    return _alike(prompt_tokens, context, sequences)


def decodes(batch: ArrayLike, context: ArrayLike, new: ArrayLike = 1) -> Spans:
    """Decode steps of `batch` sequences with `context` tokens each; new > 1 verifies new - 1 drafts."""
    made = _alike(new, context, batch)
    return Spans(made.new, made.context, made.count, made.new)


def _alike(new: ArrayLike, context: ArrayLike, count: ArrayLike) -> Spans:
    arrays = np.broadcast_arrays(*(np.asarray(each, np.int64)[..., None] for each in (new, context, count)))
    made, context_, count_ = arrays
    return Spans(made, context_, count_, np.ones_like(made))
