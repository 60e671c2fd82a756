"""The tokenizer that a GGUF file carries: SentencePiece's BPE ("llama") or byte-level BPE ("gpt2").

As Hugging Face transformers reads them, but where the file's own flag of BOS or a leading space says
otherwise, and that control tokens count whatever letters they are written in, as in llama.cpp.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Library

from twophase.engine.library_codec import LibraryCodec
from twophase.engine.sentencepiece import SPACE, SentencePieceCodec
from twophase.engine.text import Codec, Tokenizer
from twophase.errors import InputError
from twophase.model.gguf_file import read_gguf

END = ("eos_token_id", "eot_token_id", "eom_token_id")
SPECIAL = ("bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id")
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that are found whole in the text

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_WORD}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_WORD}|\p{{N}}|{_REST}"
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# How text is cut into words before merging, by tokenizer.ggml.pre (names: llama.cpp's llama-vocab.cpp).
WORDS = {
    **dict.fromkeys(("default", "gpt-2"), _GPT2),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _QWEN2),
    "tekken": _TEKKEN,
}
# These begin texts with BOS, and take a word in the vocabulary whole even where no merges lead to it.
TIKTOKEN = {pre for pre, words in WORDS.items() if words in (_LLAMA3, _TEKKEN)}


def gguf_tokenizer(path: Path) -> Tokenizer:
    """Build it from the file's own vocabulary. InputError where it has none, or one of another kind."""
    metadata = read_gguf(path).metadata
    fields = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items()}
    kind, pre = fields.get("model"), fields.get("pre", "default")
    if kind is None or "tokens" not in fields:
        raise InputError(
            f"{path} has no tokenizer: tokenizer.ggml.model and tokenizer.ggml.tokens are missing"
        )
    _check(path, fields)
    add_bos_by_default = kind == "llama" or pre in TIKTOKEN  # for files written before there was a flag
    return Tokenizer(
        codec=_codec(path, kind, pre, fields, metadata.get("general.architecture", "")),
        bos_id=fields.get("bos_token_id"),
        eos_ids=frozenset(fields[key] for key in END if key in fields),
        add_bos=bool(fields.get("add_bos_token", add_bos_by_default)),
    )


def _check(path: Path, fields: dict[str, Any]) -> None:
    """What the vocabulary's fields say must fit its size."""
    count = len(fields["tokens"])
    for key in ("scores", "token_type"):
        if key in fields and len(fields[key]) != count:
            raise InputError(f"{path} is damaged: {len(fields[key])} tokenizer.ggml.{key} for {count} tokens")
    for key in {*END, *SPECIAL} & fields.keys():
        if not 0 <= fields[key] < count:
            raise InputError(f"{path} is damaged: tokenizer.ggml.{key} {fields[key]} of {count} tokens")


def _codec(path: Path, kind: str, pre: str, fields: dict[str, Any], architecture: str) -> Codec:
    if kind == "llama":
        if "scores" not in fields:
            raise InputError(f"{path} has no tokenizer.ggml.scores, which its SentencePiece vocabulary needs")
        return _sentencepiece(fields, gemma=architecture.startswith("gemma"))
    if kind != "gpt2":
        raise InputError(f"{path} has a tokenizer of the kind {kind}: llama and gpt2 are known")
    if pre not in WORDS:
        raise InputError(
            f"{path} cuts text by the rule {pre} (tokenizer.ggml.pre): known are {', '.join(WORDS)}"
        )
    if "merges" not in fields:
        raise InputError(f"{path} has no tokenizer.ggml.merges, which its byte-level vocabulary needs")
    try:
        return _byte_level(fields, pre)
    except Exception as error:  # the library raises no narrower type
        raise InputError(f"{path} is damaged: its vocabulary and merges don't fit: {error}") from None


def _marked(fields: dict[str, Any], *kinds: int) -> list[int]:
    """Ids of the tokens of these kinds."""
    return [int(index) for index in np.flatnonzero(np.isin(fields.get("token_type", ()), kinds))]


def _sentencepiece(fields: dict[str, Any], gemma: bool) -> SentencePieceCodec:
    original = fields["tokens"]
    tokens: list[str] = original
    scores: Sequence[float] = fields["scores"].tolist()
    if gemma:
        # The file spells runs of spaces as such where the tokenizer looks for ▁; and tokens merge in
        # the order in which they stand, which the scores of Gemma's files don't follow.
        tokens = [SPACE * len(token) if " " in token and token.isspace() else token for token in tokens]
        scores = range(0, -len(tokens), -1)
    control = {*(fields[key] for key in SPECIAL if key in fields), *_marked(fields, CONTROL)}
    known = set(tokens)
    added = {original[index] for index in control | set(_marked(fields, USER_DEFINED))}
    return SentencePieceCodec(
        tokens,
        scores,
        added=frozenset(added & known),
        control=frozenset(control),
        unknown_id=fields.get("unknown_token_id"),
        prefix=bool(fields.get("add_space_prefix", not gemma)),
    )


def _byte_level(fields: dict[str, Any], pre: str) -> LibraryCodec:
    alphabet = _alphabet()
    spelled = set(alphabet.values())
    control, user_defined = _marked(fields, CONTROL), _marked(fields, USER_DEFINED)
    whole = {*control, *user_defined}
    vocabulary = {
        token
        if index in whole or spelled.issuperset(token)
        else "".join(alphabet[byte] for byte in token.encode()): index
        for index, token in enumerate(fields["tokens"])
    }
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in fields["merges"])]
    library = Library(models.BPE(vocabulary, merges, ignore_merges=pre in TIKTOKEN))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS[pre]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    tokens = fields["tokens"]
    library.add_special_tokens([AddedToken(tokens[index], normalized=False) for index in control])
    library.add_tokens([AddedToken(tokens[index], normalized=False) for index in user_defined])
    return LibraryCodec(library)


def _alphabet() -> dict[int, str]:
    """GPT-2's letter for each byte: itself where it prints, else one from U+0100 on."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in prints]
    return {byte: chr(byte) for byte in prints} | {byte: chr(0x100 + at) for at, byte in enumerate(hidden)}
