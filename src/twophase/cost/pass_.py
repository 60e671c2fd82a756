"""The pass: one forward pass of the model, a list of spans."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """`new` rows of one sequence are computed while `context` of its tokens already lie in the KV cache.

    A prefill has many new rows, a chunk of one has context too, a decode has one new row.
    """

    sequence: int
    new: int
    context: int
    blocks: tuple[int, ...] = ()  # the sequence's KV blocks, covering context + new tokens
    logit_rows: int = 1  # last rows whose logits are needed: none before the end of known tokens, one for
    # each draft more where it verifies some


@dataclass(frozen=True, slots=True)
class Pass:
    spans: tuple[Span, ...]

    @property
    def rows(self) -> int:
        return sum(span.new for span in self.spans)

    @property
    def shape(self) -> tuple[tuple[int, int], ...]:
        """(new, context) of each span: all that the cost model needs."""
        return tuple((span.new, span.context) for span in self.spans)
