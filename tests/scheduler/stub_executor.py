"""An executor with a KV cache of its own, which notices a row that is missing, doubled or another's."""

from collections.abc import Callable

from twophase.cost.pass_ import Pass
from twophase.scheduler.request import Outcome


class StubExecutor:
    """The token that sequence `s` gets after `n` tokens is `1000 * s + n`, if all n lie in its blocks."""

    def __init__(
        self,
        block_size: int,
        stop_after: dict[int, int] | None = None,
        during: Callable[[], None] = lambda: None,
    ) -> None:
        self.block_size = block_size
        self.stop_after = stop_after or {}  # sequence: prompt and output tokens after which it stops
        self.during = during
        self.kv: dict[tuple[int, int], tuple[int, int]] = {}  # (block, offset): (sequence, position)
        self.passes: list[Pass] = []

    def run(self, pass_: Pass) -> Outcome:
        self.passes.append(pass_)
        tokens, stopped = {}, set()
        for span in pass_.spans:
            end = span.context + span.new
            for position in range(span.context, end):
                self.kv[self._place(span.blocks, position)] = span.sequence, position
        for span in pass_.spans:
            end = span.context + span.new
            for position in range(end):
                assert self.kv[self._place(span.blocks, position)] == (span.sequence, position)
            if span.logit_rows:
                tokens[span.sequence] = [1000 * span.sequence + end]
                if end + 1 >= self.stop_after.get(span.sequence, end + 2):
                    stopped.add(span.sequence)
        self.during()
        return Outcome(tokens, stopped, seconds=1.0)

    def _place(self, blocks: tuple[int, ...], position: int) -> tuple[int, int]:
        return blocks[position // self.block_size], position % self.block_size
