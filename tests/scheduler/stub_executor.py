"""An executor with a KV cache of its own, which notices a row that is missing, doubled or another's."""

import hashlib
from collections.abc import Callable, Sequence

from twophase.cost.pass_ import Pass, Span
from twophase.scheduler.request import PassOutcome


def content_keys(tokens: Sequence[int], block_size: int) -> list[int]:
    """A key for each full block, of all that stands before its end."""
    ends = range(block_size, len(tokens) + 1, block_size)
    return [
        int.from_bytes(hashlib.blake2b(repr(tokens[:end]).encode(), digest_size=8).digest(), signed=True)
        for end in ends
    ]


class StubExecutor:
    """Continues a sequence `s` that has `n` tokens with `1000 * s + n`, if the KV of all n is in its blocks.

    The KV of a token is the tuple of all tokens up to it: of equal prefixes it is equal, of no others.
    `drafts(s, n)`: drafts that `s` asks to be verified next; every third one is wrong.
    """

    def __init__(
        self,
        block_size: int,
        stop_after: dict[int, int] | None = None,
        during: Callable[[], None] = lambda: None,
        drafts: Callable[[int, int], int] = lambda sequence, known: 0,
    ) -> None:
        self.block_size = block_size
        self.stop_after = stop_after or {}  # sequence: prompt and output tokens after which it stops
        self.during = during
        self.drafts = drafts
        self.contents: dict[int, list[int]] = {}  # all tokens
        self.begun: set[int] = set()  # sequences whose prompt is known
        self.kv: dict[tuple[int, int], int] = {}  # (block, offset): hash of the tokens up to there
        self.passes: list[Pass] = []
        self.accepted = 0

    def begin(self, sequence: int, prompt: int, shared: int = 0, shared_tokens: int = 0) -> list[int]:
        """A prompt that begins like all others of the same `shared`; its block keys."""
        alike = [-1000 * (shared + 1) - i for i in range(shared_tokens)]
        own = [1000 * sequence + i for i in range(shared_tokens, prompt)]
        self.contents[sequence] = alike + own
        self.begun.add(sequence)
        return content_keys(self.contents[sequence], self.block_size)

    def run(self, pass_: Pass) -> PassOutcome:
        self.passes.append(pass_)
        rows = {span.sequence: self._rows(span) for span in pass_.spans}
        for span in pass_.spans:
            for position in range(span.context, span.context + span.new):
                self.kv[self._place(span, position)] = hash(tuple(rows[span.sequence][: position + 1]))
        tokens, stopped, drafts, keys = {}, set(), {}, {}
        for span in pass_.spans:
            sequence, before = span.sequence, len(self.contents[span.sequence])
            for position in range(span.context + span.new):
                here = hash(tuple(rows[sequence][: position + 1]))
                assert self.kv[self._place(span, position)] == here, (span, position)
            if span.logit_rows:
                tokens[sequence] = self._continue(span, rows[sequence])
                known = len(self.contents[sequence])
                if known >= self.stop_after.get(sequence, known + 1):
                    stopped.add(sequence)
                drafts[sequence] = self.drafts(sequence, known)
                keys[sequence] = content_keys(self.contents[sequence], self.block_size)[
                    before // self.block_size :
                ]
        self.during()
        return PassOutcome(tokens, stopped, 1.0, drafts, keys)

    def _rows(self, span: Span) -> list[int]:
        """Its tokens, and the drafts that are verified behind them."""
        end = span.context + span.new
        if span.sequence not in self.begun:  # its prompt goes on beyond a pass without logits
            known = self.contents.setdefault(span.sequence, [])
            known += [1000 * span.sequence + i for i in range(len(known), end + (not span.logit_rows))]
            if span.logit_rows:
                self.begun.add(span.sequence)
        known = self.contents[span.sequence]
        assert span.logit_rows == max(0, end - len(known) + 1)
        right = [1000 * span.sequence + i for i in range(len(known), end)]
        return known + [token if token % 3 else -token for token in right]

    def _continue(self, span: Span, rows: list[int]) -> list[int]:
        known = self.contents[span.sequence]
        kept = [1000 * span.sequence + len(known)]
        known += kept
        stop = self.stop_after.get(span.sequence, 10**9)
        for draft in rows[len(known) - 1 :]:
            if draft != kept[-1] or len(known) >= stop:
                break
            kept.append(1000 * span.sequence + len(known))
            known.append(kept[-1])
            self.accepted += 1
        return kept

    def _place(self, span: Span, position: int) -> tuple[int, int]:
        return span.blocks[position // self.block_size], position % self.block_size
