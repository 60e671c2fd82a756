"""Text to token ids and back."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from twophase.errors import InputError

REPLACEMENT = "�"
CONTEXT = 32  # ids that text is continued from
PATIENCE = 8  # ids that � at the end is held back for; a character is complete after four


class Codec(Protocol):
    """What a tokenizer's own format has to bring."""

    def encode(self, text: str) -> list[int]:
        """Control tokens in the text count as such; none is put before or behind it."""

    def decode(self, ids: Sequence[int], skip_control: bool) -> str: ...

    def spell(self, index: int) -> str:
        """A token as the vocabulary spells it; empty for an id that it doesn't have."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """bos_id begins each text where `add_bos`; each of eos_ids ends one."""

    codec: Codec
    bos_id: int | None
    eos_ids: frozenset[int]
    add_bos: bool

    def encode(self, text: str, add_bos: bool = True) -> list[int]:
        """Ids of the text, behind BOS where the model wants one. `add_bos=False` leaves it out."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"the text is not valid Unicode: it has {error.object[error.start]!a} in it"
            ) from None
        bos = [self.bos_id] if add_bos and self.add_bos and self.bos_id is not None else []
        return bos + self.codec.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text, without control tokens. Bytes that are not UTF-8 become �."""
        return self.codec.decode(ids, True)

    def spell(self, ids: Iterable[int]) -> list[str]:
        """Each token as the vocabulary spells it: ▁upon, Ġupon."""
        return [self.codec.spell(index) for index in ids]

    def stream(self, ids: Iterable[int], after: Sequence[int] = ()) -> Iterator[str]:
        """Text as its ids come, whole characters only; together it is what decoding all of them adds."""
        text = TextStream(self, after)
        yield from filter(None, map(text.accept, ids))
        yield from filter(None, [text.finish()])


class TextStream:
    """Text as its ids come, whole characters only; together it is what decoding all of them adds.

    after: the ids before the first, so that the text goes on from theirs and keeps its leading space.
    """

    def __init__(self, tokenizer: Tokenizer, after: Sequence[int] = ()) -> None:
        self._decode = tokenizer.decode
        self._window = self._end_of(after)  # what is decoded
        self._clean = 0  # where the window's last ids begin that left nothing open
        self._shown = len(_closed(self._decode(self._window)))
        self._waiting = 0

    def accept(self, index: int) -> str:
        """The text that the next id completes; empty while a character may be incomplete."""
        self._window.append(index)
        text = self._decode(self._window)
        closed, self._waiting = _closed(text), self._waiting + 1
        if self._waiting > PATIENCE:
            closed = text
        piece = closed[self._shown :]
        if piece:
            self._shown, self._waiting = len(closed), 0
            if closed == text:
                self._window, self._clean = self._window[self._clean :], len(self._window) - self._clean
                self._shown = len(self._decode(self._window))
        elif closed == text:
            self._waiting = 0
        return piece

    def finish(self) -> str:
        """What is left when no id comes any more, complete or not."""
        return self._decode(self._window)[self._shown :]

    def _end_of(self, ids: Sequence[int]) -> list[int]:
        """As many of the last ids as matter, from one on that begins a character."""
        for start in range(max(0, len(ids) - CONTEXT), len(ids)):
            if start == 0 or not self._decode(ids[start : start + PATIENCE]).startswith(REPLACEMENT):
                return list(ids[start:])
        return []


def _closed(text: str) -> str:
    """Without � at its end, which may be a character that isn't complete."""
    return text.rstrip(REPLACEMENT)
