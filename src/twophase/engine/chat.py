"""Chat templates: how a model's messages are written as one text, in Jinja, as Hugging Face renders them.

https://huggingface.co/docs/transformers/chat_templating
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from twophase.engine.hf_tokenizer import read_object, text_of
from twophase.errors import InputError, require_regular
from twophase.model.gguf_file import read_gguf

Messages = Sequence[Mapping[str, Any]]
GGUF_TOKENS = {"bos_token": "bos_token_id", "eos_token": "eos_token_id"}


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    where: str  # how errors call it
    template: Template
    special: Mapping[str, str]  # bos_token, eos_token ...

    def __call__(self, messages: Messages, **more: Any) -> str:
        """The prompt's text, BOS in it, up to where the assistant's answer begins.

        `more`: what else the template may ask for, as tools, enable_thinking, or add_generation_prompt=False.
        InputError where the template refuses the messages, or fails on them.
        """
        asked = {"tools": None, "documents": None, "add_generation_prompt": True, **self.special, **more}
        try:
            return self.template.render(asked | {"messages": list(messages)})
        except Exception as error:  # a template may do whatever Python's operators can
            raise InputError(f"{self.where} can't write these messages: {_line(error)}") from None


def load_chat_template(path: Path) -> ChatTemplate | None:
    """Of a Hugging Face directory or a GGUF file; None where it has none, as base models.

    InputError where it is damaged.
    """
    if path.is_dir():
        return _of_directory(path)
    metadata = read_gguf(path).metadata
    text, tokens = metadata.get("tokenizer.chat_template"), metadata.get("tokenizer.ggml.tokens", [])
    ids = {name: metadata.get(f"tokenizer.ggml.{key}") for name, key in GGUF_TOKENS.items()}
    special = {
        name: tokens[index] for name, index in ids.items() if isinstance(index, int) and index < len(tokens)
    }
    return compiled(text, special, f"{path}: its chat template") if text else None


def plain_chat(messages: Messages) -> str:
    """For models without a template: each message behind its role, and the assistant's turn."""
    return "".join(f"{each['role']}: {each.get('content') or ''}\n" for each in messages) + "assistant:"


def compiled(text: object, special: Mapping[str, str], where: str) -> ChatTemplate:
    """InputError where the text is no template."""
    if not isinstance(text, str):
        raise InputError(f"{where} is not a text")
    try:
        return ChatTemplate(where, _environment().from_string(text), special)
    except (TemplateError, RecursionError) as error:
        raise InputError(f"{where} is damaged: {_line(error)}") from None


def _of_directory(directory: Path) -> ChatTemplate | None:
    own = read_object(directory / "tokenizer_config.json")
    named = {**read_object(directory / "special_tokens_map.json"), **own}
    special = {
        name: text
        for name, token in named.items()
        if name.endswith("_token") and (text := text_of(token)) is not None
    }
    alone = directory / "chat_template.jinja"
    if alone.exists():
        require_regular(alone)
        return compiled(alone.read_text("utf-8", "replace"), special, str(alone))
    text, where = own.get("chat_template"), f"{directory / 'tokenizer_config.json'}: its chat_template"
    if text is None:  # as processors of multimodal models write it
        text = read_object(directory / "chat_template.json").get("chat_template")
        where = str(directory / "chat_template.json")
    if isinstance(text, list):  # several, each with a name
        several = {str(each.get("name")): each.get("template") for each in text if isinstance(each, dict)}
        if "default" not in several:
            raise InputError(f"{where} has no default among {', '.join(several) or 'its templates'}")
        text = several["default"]
    return None if text is None else compiled(text, special, where)


class _Generation(Extension):
    """{% generation %} marks what an assistant wrote, for training; here it is only its content."""

    tags = {"generation"}  # noqa: RUF012  # as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _environment() -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    made.filters["tojson"] = _to_json
    made.globals |= {"raise_exception": _refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    return made


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Without escaping for HTML, as Jinja's own does."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
