"""Drafts: tokens guessed cheaply, which the model verifies in one pass. A bad guess costs time, never output.

(Leviathan, Kalman and Matias 2022; lookup in the text itself: Saxena 2023.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from twophase.cost.pass_ import Pass, Span
from twophase.engine.batch import make_batch
from twophase.engine.kv import KVPool
from twophase.engine.lookup import NgramDrafts, next_length
from twophase.engine.network import Network, forward
from twophase.engine.scratch import Scratch

Ids = Sequence[int]


class Drafter(Protocol):
    def begin(self, sequence: int) -> None: ...

    def end(self, sequence: int) -> None: ...

    def plan(self, sequence: int, ids: Ids, drafted: int, kept: int) -> int:
        """How many drafts the next pass will verify, after one that `drafted` some and `kept` some."""

    def propose(self, pass_: Pass, known: Mapping[int, Ids]) -> dict[int, list[int]]:
        """The drafts of every span that verifies some: one for each row beyond its known tokens."""


def drafts_of(span: Span) -> int:
    """How many of a span's rows verify drafts."""
    return max(0, span.logit_rows - 1)


@dataclass(slots=True)
class _Looked:
    """One sequence's n-grams, how many drafts it is worth trying, and those planned."""

    ngrams: NgramDrafts
    length: int
    planned: list[int]


class LookupDrafter:
    """Looks the last tokens up in the sequence's own prompt and output, and drafts what followed there.

    `most` drafts at the most; fewer where they did not hold.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._looked: dict[int, _Looked] = {}

    def begin(self, sequence: int) -> None:
        self._looked[sequence] = _Looked(NgramDrafts(), self.most, [])

    def end(self, sequence: int) -> None:
        del self._looked[sequence]

    def plan(self, sequence: int, ids: Ids, drafted: int, kept: int) -> int:
        looked = self._looked[sequence]
        if drafted:
            looked.length = next_length(looked.length, drafted, kept - 1, self.most)
        looked.planned = looked.ngrams.propose(ids, looked.length)
        return len(looked.planned)

    def propose(self, pass_: Pass, known: Mapping[int, Ids]) -> dict[int, list[int]]:
        spans = [span for span in pass_.spans if drafts_of(span)]
        return {span.sequence: self._looked[span.sequence].planned[: drafts_of(span)] for span in spans}


@dataclass(slots=True)
class _Followed:
    """Where the draft model's KV of a sequence ends: `lag` tokens before the model's own, at `context`."""

    context: int = 0
    lag: int = 0


@dataclass(slots=True)
class ModelDrafter:
    """A smaller model with the same vocabulary.

    Its KV lies in a pool of its own under the same block numbers: what is shared, freed or computed anew for
    the model is so for its drafts too.
    """

    network: Network
    pool: KVPool
    most: int
    threads: int
    _scratch: Scratch = field(default_factory=Scratch)
    _followed: dict[int, _Followed] = field(default_factory=dict)

    def begin(self, sequence: int) -> None:
        self._followed[sequence] = _Followed()

    def end(self, sequence: int) -> None:
        del self._followed[sequence]

    def plan(self, sequence: int, ids: Ids, drafted: int, kept: int) -> int:
        # The last draft was never fed to the draft model: where all were accepted it lags one token behind.
        followed = self._followed[sequence]
        followed.context, followed.lag = followed.context + kept - 1, int(0 < drafted < kept)
        return self.most

    def propose(self, pass_: Pass, known: Mapping[int, Ids]) -> dict[int, list[int]]:
        """Run the draft model over the pass's known tokens, then token by token."""
        drafts: dict[int, list[int]] = {span.sequence: [] for span in pass_.spans if drafts_of(span)}
        self._likeliest(Pass(tuple(map(self._catching_up, pass_.spans))), known, drafts)
        for done in range(1, max(map(drafts_of, pass_.spans))):
            going_on = Pass(
                tuple(
                    Span(span.sequence, 1, span.context + done, span.blocks)
                    for span in pass_.spans
                    if drafts_of(span) > done
                )
            )
            self._likeliest(going_on, {key: [*known[key], *own] for key, own in drafts.items()}, drafts)
        for span in pass_.spans:
            self._follow(span, drafts.get(span.sequence, []))
        return drafts

    def _catching_up(self, span: Span) -> Span:
        """The same known tokens, and those that the draft model has not seen yet."""
        followed = self._followed[span.sequence]
        lag = followed.lag if followed.context == span.context else 0  # else preempted, or found in the cache
        new = span.new - drafts_of(span) + lag
        return Span(span.sequence, new, span.context - lag, span.blocks, int(drafts_of(span) > 0))

    def _follow(self, span: Span, drafts: list[int]) -> None:
        end = span.context + span.new - len(drafts)
        self._followed[span.sequence] = _Followed(end)

    def _likeliest(self, pass_: Pass, known: Mapping[int, Ids], drafts: dict[int, list[int]]) -> None:
        batch = make_batch(pass_, known)
        logits = forward(self.network, self.pool, batch, self.threads, self._scratch)
        wanting = [span.sequence for span in pass_.spans if span.logit_rows]
        for sequence, best in zip(wanting, np.argmax(logits, axis=1).tolist(), strict=True):
            drafts[sequence].append(best)
