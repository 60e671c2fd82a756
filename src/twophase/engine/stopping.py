"""Stop strings, wherever they begin and end in the tokens."""

from collections.abc import Sequence

from twophase.engine.text import TextStream


class StoppingText:
    """The text of a sequence's output up to the first stop string, token by token, as far as it is sure.

    Text that may begin a stop string is held back until it is decided. Where several stop strings occur,
    the first to be complete counts, the longest of those that end together; so tokens make no difference.
    """

    def __init__(
        self, stream: TextStream, stops: Sequence[str], *, include_stop: bool = False, min_tokens: int = 0
    ) -> None:
        self.stopped: str | None = None  # the stop string that was met
        self.tokens = 0  # accepted, up to the one that completed the stop string
        self._stream = stream
        self._stops = [stop for stop in stops if stop]
        self._include_stop = include_stop
        self._min_tokens = min_tokens  # whose text is not looked at
        self._held = ""

    def accept(self, index: int) -> str:
        """Text that can be shown after the next id; always empty once a stop string was met."""
        if self.stopped is not None:
            return ""
        self.tokens += 1
        return self._advance(self._stream.accept(index), self.tokens <= self._min_tokens)

    def finish(self) -> str:
        """What is left to show when no id comes any more; may still find a stop string."""
        if self.stopped is not None:
            return ""
        shown = self._advance(self._stream.finish(), self.tokens <= self._min_tokens)
        held, self._held = self._held, ""
        return shown + held

    def _advance(self, piece: str, unlooked: bool) -> str:
        text = self._held + piece
        if unlooked:
            return text
        found = [(text.find(stop) + len(stop), -len(stop), stop) for stop in self._stops if stop in text]
        if found:
            end, _, self.stopped = min(found)
            self._held = ""
            return text[: end if self._include_stop else end - len(self.stopped)]
        sure = len(text) - max((_begun(text, stop) for stop in self._stops), default=0)
        self._held = text[sure:]
        return text[:sure]


def _begun(text: str, stop: str) -> int:
    """The length of the longest end of the text that the stop string begins with."""
    return next(
        (size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0
    )
