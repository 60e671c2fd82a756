"""Against the tokenizers library with the table of merges that transformers rebuilds from the vocabulary."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers
from transformers.tokenization_utils_base import generate_merges

from twophase.engine import sentencepiece
from twophase.engine.sentencepiece import SentencePieceCodec

LETTERS = "ab▁é"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = st.lists(st.text(LETTERS, min_size=2, max_size=5), unique=True, max_size=30)
TEXTS = st.text("ab ▁é日本", max_size=40)


def pair(pieces: list[str], scores: list[float], with_bytes: bool) -> tuple[SentencePieceCodec, Library]:
    tokens = ["<unk>", *LETTERS, *pieces, *BYTES * with_bytes]
    scores = (scores + [0.0] * len(tokens))[: len(tokens)]
    merges = generate_merges(
        {token: i for i, token in enumerate(tokens)}, dict(zip(tokens, scores, strict=True))
    )
    model = models.BPE(
        {token: i for i, token in enumerate(tokens)},
        merges,
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    library = Library(model)
    library.normalizer = normalizers.Replace(" ", "▁")
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    ours = SentencePieceCodec(tokens, scores, frozenset(), frozenset(), unknown_id=0, prefix=False)
    return ours, library


@given(PIECES, st.lists(st.integers(-3, 3).map(float), max_size=40), st.booleans(), TEXTS)
@settings(max_examples=1000, deadline=None)
def test_any_vocabulary_with_any_scores(
    pieces: list[str], scores: list[float], with_bytes: bool, text: str
) -> None:
    """Equal scores among them, ▁ within words, and characters that are bytes, or else unknown."""
    ours, library = pair(pieces, scores, with_bytes)
    ids = library.encode(text).ids
    assert ours.encode(text) == ids
    assert ours.encode(text) == ids  # words seen before
    assert ours.decode(ids, skip_control=False) == library.decode(ids)


@given(st.lists(st.integers(0, 4) | st.integers(4 + 0x80, 4 + 0xFF), max_size=12))
def test_any_ids_decode_alike(ids: list[int]) -> None:
    """Bytes that are no UTF-8 among them."""
    ours, library = pair([], [], with_bytes=True)
    assert ours.decode(ids, skip_control=False) == library.decode(ids, skip_special_tokens=False)


def test_ids_outside_the_vocabulary_are_nothing() -> None:
    ours, _ = pair([], [], with_bytes=False)
    assert ours.decode([1, -1, 99, 2], skip_control=False) == "ab"
    assert ours.spell(-1) == ours.spell(99) == ""


def test_the_longest_added_token_counts_and_the_leftmost() -> None:
    added = frozenset({"<a", "<ab>", "b>b", "<ab"})
    tokens = ["<unk>", *sorted(added), *"<>ab"]
    codec = SentencePieceCodec(tokens, [0.0] * len(tokens), added, frozenset(), unknown_id=0, prefix=False)

    def spelled(text: str) -> list[str]:
        return [codec.spell(index) for index in codec.encode(text)]

    assert spelled("<ab>b") == ["<ab>", "b"]
    assert spelled("<<ab<a") == ["<", "<ab", "<a"]
    assert spelled("ab>b>") == ["a", "b>b", ">"]


def test_threads_may_encode_at_once_while_the_cache_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencepiece, "CACHED_WORDS", 2)
    ours, library = pair(["ab", "▁a"], [1.0, 2.0], True)
    texts = [" ".join("ab"[i % 2] * (1 + (i + j) % 7) for i in range(40)) for j in range(4)]
    expected = [library.encode(text).ids for text in texts]
    found: list[bool] = []

    def encode(text: str, ids: list[int]) -> None:
        found.append(all(ours.encode(text) == ids for _ in range(200)))

    threads = [threading.Thread(target=encode, args=each) for each in zip(texts, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_no_endless_word_is_kept() -> None:
    ours, _ = pair([], [], True)
    before = len(ours._words)
    assert len(ours.encode("a" * 10_000)) == 10_000
    assert len(ours._words) == before
