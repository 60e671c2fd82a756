"""The shape of passes as arrays: what is counted for one pass is counted for a million at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twophase.cost.pass_ import Pass

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spans:
    """[..., spans] each: passes along the leading axes, the like spans of a pass along the last."""

    new: Ints  # rows of a span
    context: Ints  # tokens that lie in the cache before them
    count: Ints  # how many spans are like this one
    logits: Ints  # rows of a span whose logits are wanted


def spans_of(pass_: Pass) -> Spans:
    """One pass, without leading axes."""
    return Spans(
        new=np.array([span.new for span in pass_.spans], np.int64),
        context=np.array([span.context for span in pass_.spans], np.int64),
        count=np.ones(len(pass_.spans), np.int64),
        logits=np.array([span.wants_logits for span in pass_.spans], np.int64),
    )


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
