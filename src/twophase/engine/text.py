"""Text to token ids and back."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from twophase.errors import InputError

REPLACEMENT = "�"
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
        """Text as its ids come, whole characters only; together it is what decoding all of them adds.

        after: the ids before the first, so that the text goes on from theirs and keeps its leading space.
        """
        window, clean = list(after), 0  # what is decoded; where its last ids begin that left nothing open
        shown, waiting = len(_closed(self.decode(window))), 0
        for index in ids:
            window.append(index)
            text = self.decode(window)
            closed, waiting = _closed(text), waiting + 1
            if waiting > PATIENCE:
                closed = text
            if len(closed) > shown:
                yield closed[shown:]
                shown, waiting = len(closed), 0
                if closed == text:
                    window, clean = window[clean:], len(window) - clean
                    shown = len(self.decode(window))
            elif closed == text:
                waiting = 0
        yield from filter(None, [self.decode(window)[shown:]])


def _closed(text: str) -> str:
    """Without � at its end, which may be a character that isn't complete."""
    return text.rstrip(REPLACEMENT)
