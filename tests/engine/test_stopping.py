"""Stop strings against a cut of the whole text, whatever the tokens."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.engine.sentencepiece import SentencePieceCodec
from twophase.engine.stopping import StoppingText
from twophase.engine.text import TextStream, Tokenizer

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


@dataclass
class Pieces:
    """A codec whose ids are pieces of one text."""

    pieces: list[str]

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids, skip_control: bool) -> str:
        return "".join(self.pieces[index] for index in ids)

    def spell(self, index: int) -> str:
        return self.pieces[index]


def tokenizer_of(codec) -> Tokenizer:
    return Tokenizer(codec, bos_id=None, eos_ids=frozenset(), add_bos=False)


def first_stop(text: str, stops: list[str]) -> tuple[int, str] | None:
    """Where the first stop string to be complete ends: text grown by one character at a time."""
    for end in range(1, len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if text[:end].endswith(stop):
                return end, stop
    return None


TEXT = st.text(alphabet="abc\n", max_size=30)
STOPS = st.lists(st.text(alphabet="abc\n", min_size=1, max_size=5), max_size=3)


@given(
    pieces=st.lists(st.text(alphabet="abc\n", max_size=4), max_size=15), stops=STOPS, include=st.booleans()
)
@settings(max_examples=1000)
def test_any_tokens_give_the_text_cut_at_the_first_stop(
    pieces: list[str], stops: list[str], include: bool
) -> None:
    text, stream = "".join(pieces), TextStream(tokenizer_of(Pieces(pieces)))
    stopping = StoppingText(stream, stops, include_stop=include)
    shown = []
    for index in range(len(pieces)):
        shown.append(stopping.accept(index))
        if stopping.stopped is None:  # nothing shown is later taken back, nothing sure is held
            known = "".join(pieces[: index + 1])
            held = known[len("".join(shown)) :]
            assert known == "".join(shown) + held
            assert held == "" or any(stop.startswith(held) for stop in stops)
    output = "".join(shown) + stopping.finish()

    expected = first_stop(text, stops)
    if expected is None:
        assert stopping.stopped is None
        assert output == text
        assert stopping.tokens == len(pieces)
    else:
        end, stop = expected
        assert stopping.stopped == stop
        assert output == text[: end if include else end - len(stop)]
        lengths = [len("".join(pieces[: count + 1])) for count in range(len(pieces))]
        assert stopping.tokens == 1 + next(i for i, length in enumerate(lengths) if length >= end)


def test_a_stop_string_of_characters_that_bytes_make_up() -> None:
    codec = SentencePieceCodec(
        ["<s>", *BYTES, "stop"], [0.0] * 258, frozenset({"<s>"}), frozenset({0}), None, False
    )
    tokenizer = tokenizer_of(codec)
    ids = [1 + byte for byte in "é🙂é".encode()]
    stopping = StoppingText(TextStream(tokenizer), ["🙂"])
    shown = [stopping.accept(index) for index in ids]
    assert "".join(shown) == "é"
    assert stopping.stopped == "🙂"
    assert stopping.tokens == 6
    assert stopping.finish() == ""


def test_a_stop_string_that_only_the_end_completes() -> None:
    codec = SentencePieceCodec(["<s>", *BYTES], [0.0] * 257, frozenset({"<s>"}), frozenset({0}), None, False)
    stopping = StoppingText(TextStream(tokenizer_of(codec)), ["�"])
    assert [stopping.accept(1 + byte) for byte in b"a\xf0"] == ["a", ""]
    assert stopping.finish() == ""
    assert stopping.stopped == "�"


@pytest.mark.parametrize(("least", "shown", "tokens"), [(0, "", 1), (1, "stop", 2), (2, "stopstop", 3)])
def test_the_first_tokens_are_not_looked_at(least: int, shown: str, tokens: int) -> None:
    stream = TextStream(tokenizer_of(Pieces(["stop", "stop", "stop"])))
    stopping = StoppingText(stream, ["stop"], min_tokens=least)
    assert "".join(map(stopping.accept, range(3))) == shown
    assert stopping.tokens == tokens
