"""The text of each sequence as its tokens come, and the stop strings that end it in the very pass."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from twophase.cost.pass_ import Pass
from twophase.engine.text import PATIENCE, REPLACEMENT, Tokenizer
from twophase.scheduler.request import Outcome
from twophase.server.engine import Executor

CONTEXT = 8  # of the prompt's last ids, that decide whether the output begins with a space


class TextStream:
    """Whole characters as tokens come. What may be the beginning of a stop string is held back."""

    def __init__(self, tokenizer: Tokenizer, after: Sequence[int], stops: Sequence[str]) -> None:
        self._decode = tokenizer.decode
        self._window = list(after[-CONTEXT:])
        self._clean = 0  # where the window's last ids begin that left nothing open
        self._shown = len(self._decode(self._window).rstrip(REPLACEMENT))
        self._waiting = 0  # ids since the last whole character
        self._stops = stops
        self._held = ""
        self.armed = True  # stop strings are looked for
        self.stop: str | None = None  # the stop string that was met

    def push(self, token: int) -> str:
        """What is now sure to be text."""
        self._window.append(token)
        self._waiting += 1
        text = self._decode(self._window)
        closed = text if self._waiting > PATIENCE else text.rstrip(REPLACEMENT)
        if len(closed) <= self._shown:
            self._waiting = 0 if closed == text else self._waiting
            return ""
        new, self._shown, self._waiting = closed[self._shown :], len(closed), 0
        if closed == text:
            self._window, self._clean = self._window[self._clean :], len(self._window) - self._clean
            self._shown = len(self._decode(self._window))
        return self._sure(new)

    def close(self) -> str:
        """No token follows: the rest."""
        rest = self._decode(self._window)[self._shown :]
        text = self._sure(rest) + self._held
        self._held = ""
        return text

    def _sure(self, new: str) -> str:
        text, stops = self._held + new, self._stops if self.armed else ()
        found = [(text.find(stop), stop) for stop in stops if stop in text]
        if found:
            at, self.stop = min(found)
            self._held = ""
            return text[:at]
        keep = max((_overlap(text, stop) for stop in stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Letters at the end of the text that may begin the stop string."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-n:])), 0)


@dataclass(slots=True)
class Spoken:
    """One sequence's text on its way out."""

    stream: TextStream
    silent: frozenset[int]  # stop ids: they end the text and are not part of it
    min_tokens: int
    tokens: int = 0
    text: str = ""  # since it was last taken


@dataclass(slots=True)
class Texts:
    """Around an executor: a sequence that meets a stop string keeps no token after it."""

    executor: Executor
    tokenizer: Tokenizer
    _spoken: dict[int, Spoken] = field(default_factory=dict)

    def begin(
        self,
        sequence: int,
        prompt_ids: Sequence[int],
        stops: Sequence[str],
        silent: frozenset[int],
        least: int,
    ) -> None:
        """`least`: output tokens before which no stop string is looked for."""
        self._spoken[sequence] = Spoken(TextStream(self.tokenizer, prompt_ids, stops), silent, least)

    def end(self, sequence: int) -> None:
        self._spoken.pop(sequence, None)

    def run(self, pass_: Pass) -> Outcome:
        outcome = self.executor.run(pass_)
        tokens, stopped, keys = dict(outcome.tokens), set(outcome.stopped), dict(outcome.block_keys)
        for sequence, kept in outcome.tokens.items():
            if (spoken := self._spoken.get(sequence)) is None:
                continue
            met = self._say(spoken, kept)
            if met is not None:
                tokens[sequence] = kept[:met]
                stopped.add(sequence)
                if met < len(kept):  # its last blocks are not as full as their keys say
                    keys.pop(sequence, None)
        drafts = {sequence: count for sequence, count in outcome.drafts.items() if sequence not in stopped}
        return replace(outcome, tokens=tokens, stopped=stopped, drafts=drafts, block_keys=keys)

    def take(self, sequence: int, last: bool) -> tuple[str, str | None]:
        """(text since the last call, the stop string that ended it)."""
        spoken = self._spoken[sequence]
        if last and spoken.stream.stop is None:
            spoken.text += spoken.stream.close()
        text, spoken.text = spoken.text, ""
        return text, spoken.stream.stop

    def _say(self, spoken: Spoken, kept: Sequence[int]) -> int | None:
        """Tokens up to the stop string's last, where one was met."""
        for count, token in enumerate(kept, 1):
            spoken.tokens += 1
            spoken.stream.armed = spoken.tokens >= spoken.min_tokens
            if token not in spoken.silent:
                spoken.text += spoken.stream.push(token)
            if spoken.stream.stop is not None:
                return count
        return None
