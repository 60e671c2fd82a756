"""The text of each sequence as its tokens come, and the stop strings that end it in the very pass."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from twophase.cost.pass_ import Pass
from twophase.engine.stopping import StoppingText
from twophase.engine.text import TextStream, Tokenizer
from twophase.scheduler.request import PassOutcome
from twophase.server.engine import Executor
from twophase.server.events import SequenceRequest


@dataclass(slots=True)
class SequenceText:
    """One sequence's text on its way out."""

    text: StoppingText
    silent: frozenset[int]  # stop ids: they end the text and are not part of it
    untold: str = ""  # what was not yet taken


@dataclass(slots=True)
class Texts:
    """Around an executor: a sequence that meets a stop string keeps no token after it."""

    executor: Executor
    tokenizer: Tokenizer
    _spoken: dict[int, SequenceText] = field(default_factory=dict)

    def begin(self, sequence: int, ask: SequenceRequest) -> None:
        sampling = ask.sampling
        stream = TextStream(self.tokenizer, ask.prompt_ids)
        text = StoppingText(stream, ask.stops, include_stop=ask.include_stop, min_tokens=sampling.min_tokens)
        self._spoken[sequence] = SequenceText(text, sampling.stop_ids)

    def end(self, sequence: int) -> None:
        self._spoken.pop(sequence, None)

    def run(self, pass_: Pass) -> PassOutcome:
        outcome = self.executor.run(pass_)
        tokens, stopped, keys = dict(outcome.tokens), set(outcome.stopped), dict(outcome.block_keys)
        for sequence, kept in outcome.tokens.items():
            spoken = self._spoken[sequence]
            said = _said(spoken, kept)
            if spoken.text.stopped is not None:
                tokens[sequence] = kept[:said]
                stopped.add(sequence)
                if said < len(kept):  # its last blocks are not as full as their keys say
                    keys.pop(sequence, None)
        drafts = {sequence: count for sequence, count in outcome.drafts.items() if sequence not in stopped}
        return replace(outcome, tokens=tokens, stopped=stopped, drafts=drafts, block_keys=keys)

    def take(self, sequence: int, last: bool) -> tuple[str, str | None]:
        """(text since the last call, the stop string that ended it)."""
        spoken = self._spoken[sequence]
        text, spoken.untold = spoken.untold, ""
        if last:
            text += spoken.text.finish()
        return text, spoken.text.stopped


def _said(spoken: SequenceText, kept: Sequence[int]) -> int:
    """Tokens of `kept` up to the end of the text."""
    for count, token in enumerate(kept, 1):
        if token not in spoken.silent:
            spoken.untold += spoken.text.accept(token)
        if spoken.text.stopped is not None:
            return count
    return len(kept)
