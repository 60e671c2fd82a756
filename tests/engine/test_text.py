"""Streaming, against decoding all at once."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.engine.sentencepiece import SentencePieceCodec
from twophase.engine.text import Tokenizer
from twophase.errors import InputError

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
TOKENS = ["<s>", "</s>", *BYTES, "▁", "a", "▁a", "ab", "▁the", "é", "日本", "\n"]
CONTROL = frozenset({0, 1})


def made(prefix: bool) -> Tokenizer:
    codec = SentencePieceCodec(TOKENS, [0.0] * len(TOKENS), frozenset({"<s>", "</s>"}), CONTROL, None, prefix)
    return Tokenizer(codec, bos_id=0, eos_ids=frozenset({1}), add_bos=True)


def of_text(text: str) -> list[int]:
    """A character as its own token where there is one, else as its bytes."""
    ids: list[int] = []
    for character in text:
        ids += [TOKENS.index(character)] if character in TOKENS else [2 + byte for byte in character.encode()]
    return ids


PARTS = st.sampled_from([[at] for at in [0, *range(2 + 256, len(TOKENS))]]) | st.text(
    min_size=1, max_size=3
).map(of_text)
VALID = st.lists(PARTS, max_size=12).map(lambda parts: [index for part in parts for index in part])


@pytest.mark.parametrize("prefix", [False, True])
@given(prompt=VALID, ids=VALID)
@settings(max_examples=500)
def test_pieces_are_whole_and_together_the_text(prefix: bool, prompt: list[int], ids: list[int]) -> None:
    tokenizer = made(prefix)
    pieces = list(tokenizer.stream(ids, after=prompt))
    before, after = tokenizer.decode(prompt), tokenizer.decode(prompt + ids)
    if not before.endswith("�"):
        assert before + "".join(pieces) == after
    assert all(pieces)
    if "�" not in after:
        assert not any("�" in piece for piece in pieces)


def test_a_character_comes_with_its_last_byte_and_a_space_is_kept() -> None:
    tokenizer = made(prefix=True)
    emoji = [2 + byte for byte in "🙂".encode()]
    shown: list[tuple[int, str]] = []
    fed = 0

    def feed(ids: Sequence[int]):
        nonlocal fed
        for fed, index in enumerate(ids, 1):  # noqa: B007 - read outside
            yield index

    for piece in tokenizer.stream(
        feed([TOKENS.index("▁the"), *emoji, TOKENS.index("ab")]), after=of_text("a")
    ):
        shown.append((fed, piece))
    assert shown == [(1, " the"), (5, "🙂"), (6, "ab")]


def test_what_stays_incomplete_comes_at_the_end() -> None:
    first, second, *_ = [2 + byte for byte in "🙂".encode()]
    assert "".join(made(prefix=False).stream([TOKENS.index("ab"), first, second])) == "ab��"


def test_endless_bytes_that_are_no_text_are_not_held_back_for_ever() -> None:
    pieces = made(prefix=False).stream(iter([2 + 0xFF] * 1000))
    assert next(pieces).startswith("�")
    assert len("".join(pieces)) > 900


def test_bos_where_wanted_and_text_that_is_none() -> None:
    tokenizer = made(prefix=False)
    assert tokenizer.encode("ab")[0] == 0
    assert 0 not in tokenizer.encode("ab", add_bos=False)
    assert tokenizer.encode("<s>", add_bos=False) == [0]
    assert tokenizer.spell([0, 2, -1]) == ["<s>", "<0x00>", ""]
    with pytest.raises(InputError, match="udcff"):
        tokenizer.encode("a\udcff")


def test_text_goes_on_from_the_end_of_a_long_prompt() -> None:
    """Only its last ids are decoded again, and they may begin within a character."""
    for extra in range(8):
        prompt = of_text("a" * extra + "🙂" * 30)
        assert "".join(made(prefix=True).stream(of_text("🙂é"), after=prompt)) == "🙂é"
        assert list(made(prefix=True).stream([TOKENS.index("▁the")], after=prompt)) == [" the"]
