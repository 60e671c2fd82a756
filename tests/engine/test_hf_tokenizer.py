"""Against the tokenizers library on the same tokenizer.json."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from twophase.engine.tokenizer import load_tokenizer
from twophase.errors import InputError

WORDS = ["<s>", "</s>", "<unk>", "<|end|>", "once", "upon", "a", "time"]


@pytest.fixture
def library() -> Library:
    """Words; BOS is put in front by its post-processor."""
    made = Library(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    made.add_special_tokens([AddedToken(word, normalized=False) for word in ("<s>", "</s>", "<|end|>")])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return made


def save(directory: Path, library: Library, **files: dict[str, Any]) -> Path:
    library.save(str(directory / "tokenizer.json"))
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
    return directory


def test_ids_and_text(tmp_path: Path, library: Library) -> None:
    library.enable_truncation(2)
    library.enable_padding(length=32)
    tokenizer = load_tokenizer(
        save(tmp_path, library, tokenizer_config={"bos_token": "<s>", "eos_token": "</s>"})
    )
    library.no_truncation()
    library.no_padding()
    for text in ("", "once upon a time", "once <|end|> elsewhere"):
        assert tokenizer.encode(text) == library.encode(text).ids
        assert tokenizer.encode(text, add_bos=False) == library.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode([0, 4, 5, 3]) == "once upon"
    assert list(tokenizer.stream([4, 5, 6])) == ["once", " upon", " a"]
    assert tokenizer.spell([0, 7, 999]) == ["<s>", "time", ""]


@pytest.mark.parametrize(
    ("own", "model", "generation", "bos", "eos", "add_bos"),
    [
        ({"bos_token": "<s>", "eos_token": "</s>"}, {}, {}, 0, {1}, True),
        ({"bos_token": {"content": "<s>"}, "eos_token": {"content": "</s>"}}, {}, {}, 0, {1}, True),
        ({"bos_token": "<s>", "eos_token": "</s>"}, {"eos_token_id": 3}, {}, 0, {3}, True),
        ({"bos_token": "<s>"}, {"eos_token_id": 3}, {"eos_token_id": [1, 3]}, 0, {1, 3}, True),
        ({}, {"text_config": {"bos_token_id": 0, "eos_token_id": 1}}, {}, 0, {1}, True),
        ({"bos_token": "<s>", "add_bos_token": False}, {}, {"eos_token_id": 1}, 0, {1}, False),
        ({"bos_token": None, "eos_token": "</s>"}, {}, {}, None, {1}, False),
    ],
)
def test_what_begins_and_ends_a_text(
    own: dict[str, Any],
    model: dict[str, Any],
    generation: dict[str, Any],
    bos: int | None,
    eos: set[int],
    add_bos: bool,
    tmp_path: Path,
    library: Library,
) -> None:
    directory = save(tmp_path, library, tokenizer_config=own, config=model, generation_config=generation)
    tokenizer = load_tokenizer(directory)
    assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.add_bos) == (bos, eos, add_bos)
    assert tokenizer.encode("once") == ([0] if add_bos else []) + [4]


def test_bos_that_the_files_ask_for_though_the_post_processor_does_not(
    tmp_path: Path, library: Library
) -> None:
    own = {"bos_token": "<s>", "add_bos_token": True}
    directory = save(tmp_path, library, tokenizer_config=own)
    content = json.loads((directory / "tokenizer.json").read_text())
    (directory / "tokenizer.json").write_text(json.dumps({**content, "post_processor": None}))
    assert load_tokenizer(directory).encode("once") == [0, 4]


def refused(directory: Path) -> str:
    with pytest.raises(InputError) as raised:
        load_tokenizer(directory)
    return str(raised.value)


def test_missing_and_damaged_files(tmp_path: Path, library: Library) -> None:
    assert f"{tmp_path / 'tokenizer.json'} is missing" in refused(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    assert "tokenizer.json is not a tokenizer" in refused(tmp_path)
    save(tmp_path, library)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    assert "tokenizer_config.json is not a JSON object" in refused(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("nope")
    assert "tokenizer_config.json is not JSON" in refused(tmp_path)
    assert f"{tmp_path / 'no.gguf'}" in refused(tmp_path / "no.gguf")


def test_a_post_processor_that_names_an_unknown_token(tmp_path: Path, library: Library) -> None:
    """The library panics over it, in Rust, and no exception class of Python's catches that."""
    save(tmp_path, library)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["post_processor"]["single"][0]["SpecialToken"]["id"] = "<nowhere>"
    path.write_text(json.dumps(content))
    assert "post-processor puts in a token <nowhere>" in refused(tmp_path)
    template = content["post_processor"]
    content["post_processor"] = {"type": "Sequence", "processors": [template]}
    path.write_text(json.dumps(content))
    assert "<nowhere>" in refused(tmp_path)
