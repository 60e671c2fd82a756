"""A token that is a part of a character has its own bytes, where the vocabulary spells them."""

from collections.abc import Sequence

import pytest

from twophase.engine.text import Tokenizer
from twophase.server.writing import LETTERS, token_bytes, token_text


class Spelled:
    """A vocabulary of one token."""

    def __init__(self, spelled: str, text: str) -> None:
        self._spelled, self._text = spelled, text

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int], skip_control: bool) -> str:
        return self._text

    def spell(self, index: int) -> str:
        return self._spelled


@pytest.mark.parametrize(
    ("spelled", "text", "found"),
    [
        ("Ġso", " so", [32, 115, 111]),
        ("▁so", "so", [32, 115, 111]),
        ("<0xE2>", "\ufffd", [0xE2]),
        ("â", "\ufffd", [0xE2]),
        ("âĢ", "\ufffd", [0xE2, 0x80]),
        ("ï¿½", "\ufffd", [0xEF, 0xBF, 0xBD]),  # the whole character � itself
        ("so", "\ufffd", None),
        ("▁", "\ufffd", None),
    ],
)
def test_bytes_of_a_token(spelled: str, text: str, found: list[int] | None) -> None:
    tokenizer = Tokenizer(Spelled(spelled, text), None, frozenset(), False)
    assert token_bytes(tokenizer, 0, token_text(tokenizer, 0)) == found


def test_every_byte_has_a_letter() -> None:
    assert sorted(LETTERS.values()) == list(range(256))
