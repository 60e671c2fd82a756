"""Answers as OpenAI writes them, whole or in chunks."""

import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from twophase.engine.text import REPLACEMENT, Tokenizer
from twophase.server.asking import Generations
from twophase.server.events import Delta

Kind = Literal["chat", "completion"]
PREFIXES: dict[Kind, str] = {"chat": "chatcmpl", "completion": "cmpl"}
BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # as SentencePiece spells one
_PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
# As byte-level vocabularies spell bytes: as Latin-1 where that can be seen, else from U+0100 on.
LETTERS = {chr(byte): byte for byte in _PLAIN} | {
    chr(256 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in _PLAIN)
}
OBJECTS: dict[Kind, str] = {"chat": "chat.completion", "completion": "text_completion"}


@dataclass(slots=True)
class Choice:
    """What a sequence has said so far."""

    tokens: int = 0
    letters: int = 0
    cached_tokens: int = 0
    finish: str | None = None


@dataclass(slots=True)
class Writer:
    """Of one request's answer."""

    kind: Kind
    model: str
    tokenizer: Tokenizer
    asked: Generations
    echo: bool = False
    with_ids: bool = False
    id: str = ""
    created: int = 0
    choices: list[Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id = f"{PREFIXES[self.kind]}-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.choices = [Choice() for _ in self.asked.asks]

    @property
    def done(self) -> bool:
        return all(choice.finish for choice in self.choices)

    def usage(self) -> dict[str, Any]:
        """Each prompt is counted once, whatever its choices."""
        prompt = sum(len(each.ids) for each in self.asked.prompts)
        completion = sum(choice.tokens for choice in self.choices)
        cached = sum(choice.cached_tokens for choice in self.choices[:: self.asked.n])
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def choice(self, said: Delta, whole: bool) -> dict[str, Any]:
        """One entry of `choices`; of a chunk, where it isn't the whole answer."""
        choice = self.choices[said.choice]
        first = choice.tokens == 0
        prompt = self.asked.prompt(said.choice)
        text = prompt.text + said.text if self.echo and first else said.text
        logprobs = self._logprobs(said, choice.letters + len(text) - len(said.text))
        choice.tokens += len(said.ids)
        choice.letters += len(text)
        choice.cached_tokens = said.cached_tokens
        choice.finish = said.finish
        made: dict[str, Any] = {"index": said.choice}
        if self.kind == "completion":
            made["text"] = text
        else:
            role = {"role": "assistant"} if first or whole else {}
            made["message" if whole else "delta"] = {**role, "content": text}
        if whole and self.kind == "chat":
            made["message"]["refusal"] = None
        made |= {"logprobs": logprobs, "finish_reason": said.finish}
        if said.stop is not None:
            made["stop_reason"] = said.stop
        if self.with_ids:
            made["token_ids"] = list(said.ids)
            if self.kind == "completion" and first:
                made["prompt_token_ids"] = list(prompt.ids)
        return made

    def document(self, choices: Sequence[dict[str, Any]], whole: bool) -> dict[str, Any]:
        chunk = "" if whole or self.kind == "completion" else ".chunk"
        return {
            "id": self.id,
            "object": OBJECTS[self.kind] + chunk,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    def answer(self, said: Sequence[Sequence[Delta]]) -> dict[str, Any]:
        """The whole, from all that each choice said."""
        document = self.document([self.choice(_joined(each), True) for each in said], True)
        if self.with_ids and self.kind == "chat":
            document["prompt_token_ids"] = list(self.asked.prompts[0].ids)
        return {**document, "usage": self.usage()}

    def _logprobs(self, said: Delta, offset: int) -> dict[str, Any] | None:
        if not said.logprobs:
            return None
        pairs = list(zip(said.ids, said.logprobs, strict=True))
        if self.kind == "chat":
            content = [
                {
                    **self._token(token, found.logprob),
                    "top_logprobs": [self._token(*other) for other in found.top],
                }
                for token, found in pairs
            ]
            return {"content": content, "refusal": None}
        texts = [token_text(self.tokenizer, token) for token in said.ids]
        offsets = [offset + sum(map(len, texts[:i])) for i in range(len(texts))]
        return {
            "tokens": texts,
            "token_logprobs": [found.logprob for _, found in pairs],
            "top_logprobs": [
                {
                    token_text(self.tokenizer, other): value
                    for other, value in (*found.top, (token, found.logprob))
                }
                for token, found in pairs
            ],
            "text_offset": offsets,
        }

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        text = token_text(self.tokenizer, token)
        return {"token": text, "logprob": logprob, "bytes": token_bytes(self.tokenizer, token, text)}


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """One token's text, with the space before it that decoding it alone would lose."""
    text = tokenizer.decode([token])
    (spelled,) = tokenizer.spell([token])
    return text if not spelled.startswith("▁") or text.startswith(" ") else f" {text}"


def token_bytes(tokenizer: Tokenizer, token: int, text: str) -> list[int] | None:
    """Of a token whose text alone is `text`; None where it is part of a character and nothing says which."""
    if REPLACEMENT not in text:
        return list(text.encode())
    (spelled,) = tokenizer.spell([token])
    if byte := BYTE.fullmatch(spelled):
        return [int(byte[1], 16)]
    found = [LETTERS.get(letter) for letter in spelled]
    known = [byte for byte in found if byte is not None]
    surely = len(known) == len(found) and bytes(known).decode("utf-8", "replace") == text
    return known if surely else None


def _joined(parts: Sequence[Delta]) -> Delta:
    last = parts[-1]
    return Delta(
        choice=last.choice,
        ids=[token for part in parts for token in part.ids],
        text="".join(part.text for part in parts),
        logprobs=[each for part in parts for each in part.logprobs],
        finish=last.finish,
        stop=last.stop,
        cached_tokens=last.cached_tokens,
    )
