"""Against transformers' apply_chat_template on the same templates and messages."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_gguf import sentencepiece_fields, shape_fields, write_gguf
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from twophase.engine.chat import load_chat_template, plain_chat
from twophase.errors import InputError

CHATML = """{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n<tools>' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" %}
        {%- set ns.last = index %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
        {%- set shown = message.content %}
        {%- if loop.index0 < ns.last %}
            {%- set shown = shown.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- shown + '<|im_end|>\\n' }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim }}
        {{- '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {{- '{"name": "' + message.tool_calls[0].function.name + '", "parameters": ' }}
        {{- message.tool_calls[0].function.arguments | tojson(indent=2) }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" + message.content | tojson + "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
    {{ raise_exception('System role not supported') }}
{% endif %}
{% for message in messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {% endif %}
    {% set role = 'model' if message['role'] == 'assistant' else message['role'] %}
    {{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""
MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, got " + message["role"]) }}
    {%- endif %}
{%- endfor %}
"""
TEMPLATES = {"chatml": CHATML, "llama 3": LLAMA3, "gemma": GEMMA, "mistral": MISTRAL}
TURNS = [
    {"role": "user", "content": ' What is 2 < 3 && "é"? '},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nTrue, it’s 'so'."},
    {"role": "user", "content": "And\n\n3 < 2?"},
]
SYSTEM = [{"role": "system", "content": "Be brief."}, *TURNS]
TOOL = {"type": "function", "function": {"name": "add", "description": "a <b> & ü", "parameters": {}}}
CALLED = [
    TURNS[0],
    {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1, "b": [2, 3]}}}]},
    {"role": "tool", "content": {"sum": 6}},
]
SPECIAL = {"bos_token": "<|begin|>", "eos_token": "<|end|>"}


def directory(at: Path, template: object, **more: Any) -> Path:
    config = {"chat_template": template, **SPECIAL, **more}
    (at / "tokenizer_config.json").write_text(json.dumps(config))
    return at


def loaded(at: Path) -> Any:
    template = load_chat_template(at)
    assert template is not None
    return template


@pytest.mark.parametrize("more", [{}, {"add_generation_prompt": False}, {"enable_thinking": False}], ids=str)
@pytest.mark.parametrize(
    ("name", "messages"),
    [
        *[(name, TURNS) for name in TEMPLATES],
        *[(name, SYSTEM) for name in ("chatml", "llama 3", "mistral")],
        ("llama 3", CALLED),
    ],
)
def test_text_is_transformers_own(name: str, messages: Any, more: dict[str, Any], tmp_path: Path) -> None:
    library = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **SPECIAL)
    asked = {"add_generation_prompt": True, **more, **({"tools": [TOOL]} if name == "chatml" else {})}
    theirs = library.apply_chat_template(messages, chat_template=TEMPLATES[name], tokenize=False, **asked)
    assert loaded(directory(tmp_path, TEMPLATES[name]))(messages, **asked) == theirs
    assert len(theirs) > 50


def test_where_templates_lie(tmp_path: Path) -> None:
    """A file of its own comes before the key; BOS may be written as an object; of several one is default."""
    named = [
        {"name": "tool_use", "template": "tools"},
        {"name": "default", "template": "{{ eos_token }} as said"},
    ]
    directory(tmp_path, named, eos_token={"content": "</s>", "special": True})
    assert loaded(tmp_path)(TURNS) == "</s> as said"
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content | trim }}")
    assert loaded(tmp_path)([{"role": "user", "content": " hi "}]) == "hi"
    other = tmp_path / "other"
    other.mkdir()
    assert load_chat_template(other) is None
    (other / "special_tokens_map.json").write_text(json.dumps(SPECIAL))
    (other / "chat_template.json").write_text(json.dumps({"chat_template": "{{ bos_token }}"}))
    assert loaded(other)(TURNS) == "<|begin|>"


def test_a_gguf_file_carries_its_template(tmp_path: Path) -> None:
    fields = {**shape_fields(), **sentencepiece_fields(["a", "b"])}
    path = write_gguf(tmp_path / "tiny.gguf", chat_template=MISTRAL, **fields)
    library = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>"
    )
    assert loaded(path)(SYSTEM) == library.apply_chat_template(
        SYSTEM, chat_template=MISTRAL, add_generation_prompt=True, tokenize=False
    )
    assert load_chat_template(write_gguf(tmp_path / "base.gguf", **fields)) is None


@pytest.mark.parametrize(
    ("template", "messages", "says"),
    [
        (GEMMA, SYSTEM, "System role not supported"),
        (GEMMA, [*TURNS, TURNS[2]], "roles must alternate"),
        ("{{ messages[7].content.lower() }}", TURNS, "has no element 7"),
        ("{{ 'a' + 1 }}", TURNS, "can't write these messages"),
        ("{{ messages.__class__.__mro__ }}", TURNS, "unsafe"),
        ("{{ messages.append(1) }}", TURNS, "can't write these messages"),
        ("{% for i in range(10**9) %}{% endfor %}", TURNS, "can't write these messages"),
    ],
)
def test_messages_that_a_template_refuses_or_fails_on(
    template: str, messages: Any, says: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=says) as raised:
        loaded(directory(tmp_path, template))(messages)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "template", ["{% if %}", "{{ a", "{% nonsense %}", 7, [{"name": "x", "template": "y"}]]
)
def test_what_is_no_template(template: object, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        load_chat_template(directory(tmp_path, template))
    assert "tokenizer_config.json" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_client_cannot_replace_the_messages(tmp_path: Path) -> None:
    template = loaded(directory(tmp_path, "{{ messages | length }}{{ bos_token }}"))
    assert template(TURNS, bos_token="!") == "3!"


def test_a_plain_chat() -> None:
    assert plain_chat(SYSTEM[:2]) == 'system: Be brief.\nuser:  What is 2 < 3 && "é"? \nassistant:'
