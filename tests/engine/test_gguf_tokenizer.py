"""Against transformers' tokenizer of the same file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers as tf
from gguf import TokenType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_gguf import sentencepiece_fields, shape_fields, write_gguf
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, trainers

from twophase.engine.default_model import default_model_path
from twophase.engine.tokenizer import Tokenizer, load_tokenizer
from twophase.errors import InputError

DATA = Path(__file__).parents[1] / "data"
PIECES = [
    "▁",
    "a",
    "b",
    "c",
    "▁a",
    "ab",
    "bc",
    "abc",
    "▁ab",
    "▁▁",
    "▁▁▁▁",
    "é",
    "日",
    "本",
    "日本",
    "t",
    "h",
    "e",
]
PIECES += ["th", "▁t", "he", "▁the", "the", "<", "s", ">", "\n", "b▁", "b▁a", "<0", "x", "0"]
STRANGE = [
    "\n\n",
    "<s>",
    "</s>",
    "<unk>",
    "<|x|>",
    "😀",
    "👩‍👧",
    "e\u0301",
    "▁",
    "<0x0A>",
    "\u00a0",
    "\u3000",
    "\r\n",
    "ǅ",
]
WORDS = [
    " ",
    "  ",
    "a",
    "b",
    "c",
    "the ",
    "it's",
    "I'LL",
    "12",
    "345",
    "é",
    "日本",
    "नमस्ते",
    "{}",
    "();",
    "!?…",
    "X",
    " we",
]
TEXTS = st.lists(st.sampled_from(STRANGE + WORDS) | st.text(max_size=3), max_size=16).map("".join)
BYTE_LEVEL_RULES = ["default", "gpt-2", "qwen2", "llama-bpe", "tekken"]
CORPUS = (
    "Prefill runs the prompt in one pass; it's bound by arithmetic. 12345 日本語 café नमस्ते {}();\r\n\t" * 9
)

Pair = tuple[Tokenizer, Any]


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair(tmp_path_factory.mktemp("spm"), "llama", sentencepiece_fields(PIECES, ["\n\n", "<|x|>"]))


@pytest.fixture(scope="module", params=BYTE_LEVEL_RULES)
def byte_level(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair(tmp_path_factory.mktemp("bpe"), "qwen2", byte_level_fields(request.param))


def byte_level_fields(pre: str) -> dict[str, Any]:
    """A byte-level vocabulary trained on a few words, with two control tokens and a user's."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(
        [CORPUS, "".join(WORDS)],
        trainers.BpeTrainer(vocab_size=360, initial_alphabet=alphabet, show_progress=False),
    )
    model = json.loads(library.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {
        "tokenizer_model": "gpt2",
        "tokenizer_pre": pre,
        "token_list": [*tokens, "<s>", "</s>", "<|x|>"],
        "token_merges": [" ".join(merge) for merge in model["merges"]],
        "token_types": [*[TokenType.NORMAL] * len(tokens), *[TokenType.CONTROL] * 2, TokenType.USER_DEFINED],
        "bos_token_id": len(tokens),
        "eos_token_id": len(tokens) + 1,
        "add_bos_token": True,
    }


def pair(directory: Path, architecture: str, fields: dict[str, Any]) -> Pair:
    path = write_gguf(directory / "tiny.gguf", architecture, **shape_fields(), **fields)
    return load_tokenizer(path), tf.AutoTokenizer.from_pretrained(directory, gguf_file=path.name)


def agree(ours: Tokenizer, theirs: Any, text: str) -> None:
    ids = theirs.encode(text)
    assert ours.encode(text) == ids
    assert ours.encode(text, add_bos=False) == theirs.encode(text, add_special_tokens=False)
    decoded = theirs.decode(ids, skip_special_tokens=True)
    assert ours.decode(ids) == decoded
    assert "".join(ours.stream(ids)) == decoded
    assert ours.spell(ids) == theirs.convert_ids_to_tokens(ids)


@given(TEXTS)
@settings(max_examples=500)
def test_sentencepiece(sentencepiece: Pair, text: str) -> None:
    agree(*sentencepiece, text)


@given(TEXTS)
@settings(max_examples=200, suppress_health_check=[HealthCheck.differing_executors])
def test_byte_level(byte_level: Pair, text: str) -> None:
    agree(*byte_level, text)


def test_what_begins_and_ends_a_text(sentencepiece: Pair, byte_level: Pair) -> None:
    for ours, theirs in (sentencepiece, byte_level):
        assert ours.bos_id == theirs.bos_token_id
        assert ours.eos_ids == {theirs.eos_token_id}
        assert ours.add_bos


@pytest.fixture(scope="module")
def gemma() -> Tokenizer:
    path = default_model_path()
    assert path is not None, "the test extra installs it"
    return load_tokenizer(path)


@pytest.mark.parametrize(
    "case", json.loads((DATA / "gemma_3_tokens.json").read_text()), ids=lambda case: ascii(case["text"][:20])
)
def test_gemma(gemma: Tokenizer, case: dict[str, Any]) -> None:
    assert gemma.encode(case["text"]) == case["ids"]


@pytest.mark.slow
def test_gemma_on_any_text(gemma: Tokenizer) -> None:
    path = default_model_path()
    assert path is not None
    theirs = tf.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    spelled = st.sampled_from(theirs.convert_ids_to_tokens(range(len(theirs)))).map(
        lambda token: token.replace("▁", " ")
    )
    piece = (
        spelled
        | st.text()
        | st.sampled_from(" \n\t-=a中").flatmap(lambda c: st.integers(1, 40).map(lambda n: c * n))
    )

    @given(st.lists(piece | st.sampled_from(STRANGE + WORDS), max_size=24).map("".join))
    @settings(max_examples=5000, deadline=None)
    def same(text: str) -> None:
        agree(gemma, theirs, text)

    same()


def refused(directory: Path, change: Callable[[dict[str, Any]], Any], fields: dict[str, Any]) -> str:
    change(fields)
    path = write_gguf(directory / "bad.gguf", "llama", **shape_fields(), **fields)
    with pytest.raises(InputError) as raised:
        load_tokenizer(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_vocabularies_that_are_not_known_or_do_not_fit(tmp_path: Path) -> None:
    def spm() -> dict[str, Any]:
        return sentencepiece_fields(PIECES)

    assert "kind bert" in refused(tmp_path, lambda f: f.update(tokenizer_model="bert"), spm())
    assert "no tokenizer" in refused(tmp_path, lambda f: f.clear(), spm())
    assert "scores" in refused(tmp_path, lambda f: f.pop("token_scores"), spm())
    assert "scores" in refused(tmp_path, lambda f: f["token_scores"].pop(), spm())
    assert "token_type" in refused(tmp_path, lambda f: f["token_types"].pop(), spm())
    assert "bos_token_id 9999" in refused(tmp_path, lambda f: f.update(bos_token_id=9999), spm())
    assert "rule of-nowhere" in refused(tmp_path, lambda f: None, byte_level_fields("of-nowhere"))
    assert "merges" in refused(tmp_path, lambda f: f.pop("token_merges"), byte_level_fields("qwen2"))
    assert "merges" in refused(
        tmp_path, lambda f: f["token_merges"].append("zzz yyy"), byte_level_fields("qwen2")
    )


def test_llama_3_takes_a_word_in_the_vocabulary_whole(tmp_path: Path) -> None:
    """As its tokenizer.json says (ignore_merges), where a vocabulary has words that no merges lead to."""
    fields = byte_level_fields("llama-bpe")
    fields["token_list"][300] = "zqzqz"
    fields["token_merges"] = fields["token_merges"][:1]
    path = write_gguf(tmp_path / "tiny.gguf", "llama", **shape_fields(), **fields)
    assert load_tokenizer(path).encode("zqzqz", add_bos=False) == [300]
