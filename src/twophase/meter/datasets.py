"""Prompts of the user's own: JSONL with a prompt or messages on each line, or ShareGPT's conversations."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from twophase.errors import InputError, damaged, require_regular
from twophase.meter.dialect import Message
from twophase.meter.prompts import Talk, Turn
from twophase.workload.lengths import Lengths

LETTERS_A_TOKEN = 4  # of text whose tokens nobody has counted: only sizes an answer
USERS = {"human", "user"}
ASSISTANTS = {"gpt", "assistant", "chatgpt", "bard", "bing", "model"}
LENGTHS = ("max_tokens", "output_tokens", "output_len")  # of an answer
MOST_TOKENS = 10_000_000
WANTED = 'give JSONL with "prompt" or "messages" on each line, or ShareGPT\'s JSON with "conversations"'


def read_dataset(path: Path, output: Lengths | None, turns: int, seed: str) -> tuple[Talk, ...]:
    """The talks of a file, in random order of the seed; answers as long as recorded, or as drawn."""
    require_regular(path)
    rng = Random(seed)
    talks = []
    for where, row in rows_of(path):
        asked = next((row[name] for name in LENGTHS if name in row), None) if isinstance(row, dict) else None
        if asked is not None and not is_count(asked):
            raise InputError(f"{path}, {where}: an answer of {str(asked)[:40]!r} tokens; give a whole number")
        talk = talk_of(row, asked, turns)
        if talk is None:
            raise InputError(f"{path}, {where}: no prompt there; {WANTED}")
        if not talk.turns:
            continue  # a conversation without a user
        if output is not None:
            talk = replace(
                talk, turns=tuple(replace(turn, max_tokens=output.draw(rng)) for turn in talk.turns)
            )
        talks.append(talk)
    if not talks:
        raise InputError(f"{path} has no prompt; {WANTED}")
    rng.shuffle(talks)
    return tuple(talks)


def rows_of(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, object): lines of JSONL, or the items of one JSON list."""
    with damaged(path):
        content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = content[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {place}: not UTF-8; {WANTED}") from None
    if text.lstrip()[:1] == "[":
        with damaged(path):
            items = json.loads(text)
        yield from ((f"item {number}", item) for number, item in enumerate(items, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}, line {number}: not JSON; {WANTED}") from None


def is_count(asked: Any) -> bool:
    """Of tokens; 0 where none was recorded."""
    number = isinstance(asked, int | float) and not isinstance(asked, bool)
    return number and 0 <= asked <= MOST_TOKENS and asked == int(asked)


def talk_of(row: Any, asked: int | None, turns: int) -> Talk | None:
    """None where a row holds no prompt in any form known here."""
    if not isinstance(row, dict):
        return None
    said = next((row[name] for name in ("messages", "conversations", "conversation") if name in row), None)
    if said is None:
        prompt = next((row[name] for name in ("prompt", "text", "question") if name in row), None)
        if not isinstance(prompt, str):
            return None
        answer = next((row[name] for name in ("completion", "response", "answer") if name in row), "")
        said = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    if not isinstance(said, list) or not all(isinstance(each, dict) for each in said):
        return None
    return spoken([(role_of(each), text_of(each)) for each in said], asked, turns)


def spoken(said: list[Message], asked: int | None, turns: int) -> Talk:
    """Its first user turns, each with the recorded answer's length, or 128 tokens where none is recorded."""
    before: list[Message] = []
    found: list[Turn] = []
    behind = 0
    for place, (role, text) in enumerate(said):
        if role in USERS and len(found) < turns and text:
            answer = said[place + 1][1] if said[place + 1 :] and said[place + 1][0] in ASSISTANTS else ""
            expected = int(asked) if asked else tokens_in(answer) if answer else 128
            found.append(Turn(text, behind + tokens_in(text), max(expected, 1)))
            behind += tokens_in(text) + expected
        elif role not in USERS | ASSISTANTS and not found:
            before.append(("system", text))
            behind += tokens_in(text)
    return Talk(tuple(found), tuple(before))


def role_of(message: dict[str, Any]) -> str:
    return str(message.get("role", message.get("from", ""))).lower()


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content", message.get("value", ""))
    if isinstance(content, list):  # parts
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def tokens_in(text: str) -> int:
    return max(len(text) // LETTERS_A_TOKEN, 1)
