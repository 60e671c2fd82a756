"""Filler text counts about four letters a token and is read back as it was written."""

from hypothesis import given
from hypothesis import strategies as st

from twophase.server.filler_text import filler_template, filler_tokenizer

TOKENIZER = filler_tokenizer(128_256)


@given(st.lists(st.integers(0, 128_255)))
def test_ids_are_read_back(ids: list[int]) -> None:
    assert TOKENIZER.encode(TOKENIZER.decode(ids)) == ids


@given(st.text(), st.integers(2, 5000))
def test_any_text_has_ids_in_the_vocabulary(text: str, vocabulary: int) -> None:
    ids = filler_tokenizer(vocabulary).encode(text)
    assert all(0 <= index < vocabulary for index in ids)
    assert ids == filler_tokenizer(vocabulary).encode(text)


def test_about_four_letters_a_token() -> None:
    text = (
        "We hold these truths to be self-evident, that all men are created equal, that they are endowed by "
        "their Creator with certain unalienable Rights, that among these are Life, Liberty and the pursuit "
        "of Happiness."
    )
    assert 3.5 < len(text) / len(TOKENIZER.encode(text)) < 4.5


def test_a_conversation_begins_with_what_was_there() -> None:
    question = {"role": "user", "content": "Is this so?"}
    prompt = TOKENIZER.encode(filler_template([question]))
    answer = [5, 6, 7, 128_000]
    spoken = {"role": "assistant", "content": TOKENIZER.decode(answer).strip()}
    later = TOKENIZER.encode(filler_template([question, spoken, question]))
    assert later[: len(prompt) + len(answer)] == prompt + answer
