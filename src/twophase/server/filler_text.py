"""A tokenizer for a model that is only a name: about four letters a token, and a text for every id."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from twophase.engine.text import Tokenizer

PIECE = re.compile(r"\s?[^\s]{1,5}|\s")  # English has about 4 letters in such a piece
LETTERS = "etaoinshrdlucmfwypvbgkqjxz"
WORD = re.compile(f" [{LETTERS}]{{4}}")


class FillerCodec:
    """Ids are spelled as words of four letters and read back as the same ids; other text has ids by its hash.

    So a conversation that carries an answer on begins with the same tokens, as with a real tokenizer.
    """

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = min(vocabulary, len(LETTERS) ** 4)

    def encode(self, text: str) -> list[int]:
        return list(self._ids(text))

    def decode(self, ids: Sequence[int], skip_control: bool) -> str:
        return "".join(map(self.spell, ids))

    def spell(self, index: int) -> str:
        return _word(index)

    def _ids(self, text: str) -> Iterator[int]:
        for piece in PIECE.findall(text):
            index = _number(piece) if WORD.fullmatch(piece) else self._vocabulary
            if index >= self._vocabulary:
                digest = blake2b(piece.encode(), digest_size=8).digest()
                index = int.from_bytes(digest, "little") % self._vocabulary
            yield index


def filler_tokenizer(vocabulary: int) -> Tokenizer:
    return Tokenizer(FillerCodec(vocabulary), bos_id=None, eos_ids=frozenset(), add_bos=False)


def filler_template(messages: Sequence[Mapping[str, Any]], **more: Any) -> str:
    """Every message under its role, much as ChatML writes them; a space before each keeps words' ids."""
    written = [f"<|im_start|> {each['role']}\n {each['content'].lstrip()} <|im_end|>\n" for each in messages]
    return "".join([*written, "<|im_start|> assistant\n"])


@lru_cache(1 << 16)
def _word(index: int) -> str:
    letters = []
    for _ in range(4):
        index, place = divmod(index, len(LETTERS))
        letters.append(LETTERS[place])
    return " " + "".join(letters)


def _number(word: str) -> int:
    return sum(LETTERS.index(letter) * len(LETTERS) ** place for place, letter in enumerate(word[1:]))
