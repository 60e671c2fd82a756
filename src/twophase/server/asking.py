"""From a request to the sequences that it asks for. Everything that can't be done is said by name."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.concurrency import run_in_threadpool

from twophase.engine.sampling import Sampling
from twophase.errors import InputError
from twophase.server.engine import OpenEngine
from twophase.server.errors import TOO_LONG, ApiError
from twophase.server.events import SequenceRequest
from twophase.server.protocol import ChatRequest, CompletionRequest, Generation, Message

SHORT = 2000  # letters or tokens that are converted at once; what is longer leaves the event loop free
TAKEN = ("messages", "self")  # names that no template can be given anything else under
COMPLETION_TOKENS = 16  # OpenAI's default


@dataclass(frozen=True, slots=True)
class Prompt:
    ids: Sequence[int]
    text: str = ""  # of token ids only where they are echoed


@dataclass(frozen=True, slots=True)
class Generations:
    """Sequences in the order of choices: those of the first prompt, of the second, ..."""

    asks: Sequence[SequenceRequest]
    prompts: Sequence[Prompt]
    n: int

    def prompt(self, choice: int) -> Prompt:
        return self.prompts[choice // self.n]


async def of_completion(body: CompletionRequest, engine: OpenEngine, most_sequences: int) -> Generations:
    unsupported = {
        "suffix": bool(body.suffix),
        "best_of": body.best_of is not None and body.best_of != (body.n or 1),
        "echo together with logprobs": bool(body.echo) and body.logprobs is not None,
    }
    _refuse(unsupported)
    given = body.prompt
    several: Sequence[str | Sequence[int]]
    if isinstance(given, str):
        several = [given]
    elif isinstance(given[0], int):
        several = [[token for token in given if isinstance(token, int)]]
    else:
        several = [each for each in given if not isinstance(each, int)]
    _require_room(len(several) * (body.n or 1), most_sequences)
    prompts = await _prompts(several, engine)
    asked = _asked(body, engine, prompts, "prompt", body.max_tokens, COMPLETION_TOKENS, body.logprobs)
    if not body.echo:
        return asked
    return replace(
        asked, prompts=[replace(each, text=each.text or await _decode(each.ids, engine)) for each in prompts]
    )


async def of_chat(body: ChatRequest, engine: OpenEngine, most_sequences: int) -> Generations:
    _refuse(
        {
            "tools": bool(body.tools),
            "functions": bool(body.functions),
            "response_format": body.response_format is not None and body.response_format.type != "text",
            "modalities other than text": any(each != "text" for each in body.modalities or ()),
        }
    )
    if body.top_logprobs is not None and not body.logprobs:
        raise ApiError(400, "top_logprobs needs logprobs to be true", param="top_logprobs")
    more = dict(body.chat_template_kwargs or {})
    for name in more:
        if name in TAKEN or not name.isidentifier():
            raise ApiError(400, f"{name[:40]!a} is no name of a template's", param="chat_template_kwargs")
    _require_room(body.n or 1, most_sequences)
    prompt = await _chat_prompt(body.messages, engine, more)
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    return _asked(body, engine, [prompt], "messages", most, engine.default_output, logprobs)


async def tokens_of(
    prompt: str | None, messages: Sequence[Message] | None, bos: bool, engine: OpenEngine
) -> Sequence[int]:
    """For /tokenize: of a text, or of a conversation."""
    if (prompt is None) == (messages is None):
        raise ApiError(400, "give one of prompt and messages", param="prompt")
    if messages is not None:
        return (await _chat_prompt(messages, engine, {})).ids
    return await _encode(prompt or "", bos, engine)


async def text_of(ids: Sequence[int], engine: OpenEngine) -> str:
    """For /detokenize."""
    if len(ids) > engine.longest:
        raise ApiError(
            400,
            f"{len(ids)} tokens; the longest text has {engine.longest}",
            param="tokens",
            code=TOO_LONG,
        )
    _require_known(ids, "tokens", engine)
    return await _decode(ids, engine)


def require_model(model: str | None, engine: OpenEngine) -> None:
    if model is not None and model != engine.name:
        raise ApiError(
            404,
            f"the model `{model}` does not exist; this server has `{engine.name}`",
            param="model",
            code="model_not_found",
        )


def _refuse(unsupported: dict[str, bool]) -> None:
    for what, asked in unsupported.items():
        if asked:
            raise ApiError(
                400, f"{what}: not supported by this server", param=what.split()[0], code="unsupported"
            )


async def _prompts(several: Sequence[str | Sequence[int]], engine: OpenEngine) -> list[Prompt]:
    def prompts() -> list[Prompt]:
        return [_prompt(each, engine) for each in several]

    return prompts() if sum(map(len, several)) < SHORT else await run_in_threadpool(prompts)


def _prompt(given: str | Sequence[int], engine: OpenEngine) -> Prompt:
    if isinstance(given, str):
        return Prompt(_encoded(given, True, engine), given)
    _require_known(given, "prompt", engine)
    return Prompt(given)


def _require_known(ids: Sequence[int], where: str, engine: OpenEngine) -> None:
    beyond = next((token for token in ids if token >= engine.vocabulary), None)
    if beyond is not None:
        raise ApiError(400, f"token id {beyond} is not in the vocabulary of {engine.vocabulary}", param=where)


def _require_room(wanted: int, most: int) -> None:
    if wanted > most:
        raise ApiError(400, f"{wanted} sequences asked for at once; this server takes {most}", param="n")


async def _decode(ids: Sequence[int], engine: OpenEngine) -> str:
    decode = engine.tokenizer.decode
    return decode(ids) if len(ids) < SHORT else await run_in_threadpool(decode, ids)


async def _encode(text: str, bos: bool, engine: OpenEngine) -> list[int]:
    if len(text) < SHORT:
        return _encoded(text, bos, engine)
    return await run_in_threadpool(_encoded, text, bos, engine)


def _encoded(text: str, bos: bool, engine: OpenEngine) -> list[int]:
    try:
        return engine.tokenizer.encode(text, add_bos=bos)
    except InputError as error:
        raise ApiError(400, str(error), param="prompt") from None


async def _chat_prompt(messages: Sequence[Message], engine: OpenEngine, more: dict[str, object]) -> Prompt:
    if engine.chat_template is None:
        raise ApiError(
            400,
            f"{engine.name} has no chat template, it is a base model: use /v1/completions",
            param="messages",
            code="no_chat_template",
        )
    plain = [{**message.model_dump(exclude_none=True), "content": _content(message)} for message in messages]
    for message in plain:
        if message["role"] == "developer":  # OpenAI's newer word, that no template knows
            message["role"] = "system"
    try:
        text = engine.chat_template(plain, **more)
    except InputError as error:
        raise ApiError(400, str(error), param="messages") from None
    return Prompt(await _encode(text, not engine.template_has_bos, engine), text)


def _content(message: Message) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type != "text" or part.text is None:
            raise ApiError(
                400,
                f"content of type {part.type!r}: not supported, only text is",
                param="messages",
                code="unsupported",
            )
    return "".join(part.text or "" for part in message.content)


def _asked(
    body: Generation,
    engine: OpenEngine,
    prompts: Sequence[Prompt],
    where: str,
    most: int | None,
    default: int | None,
    logprobs: int | None,
) -> Generations:
    n = body.n or 1
    sampling = _sampling(body, engine, logprobs)
    stops = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    asks = []
    for prompt in prompts:
        output = _output(len(prompt.ids), most, default, where, engine)
        if sampling.min_tokens > output:
            raise ApiError(
                400,
                f"min_tokens {sampling.min_tokens} is more than the {output} of max_tokens",
                param="min_tokens",
            )
        asks += [
            SequenceRequest(
                prompt_ids=prompt.ids,
                sampling=replace(sampling, seed=sampling.seed + i),
                max_output=output,
                stops=stops,
                include_stop=bool(body.include_stop_str_in_output),
                priority=body.priority or 0,
            )
            for i in range(n)
        ]
    return Generations(asks, prompts, n)


def _output(prompt: int, most: int | None, default: int | None, where: str, engine: OpenEngine) -> int:
    """Output tokens that a prompt of so many tokens may have."""
    longest = engine.longest
    if not prompt:
        raise ApiError(400, "the prompt has no tokens: give some text", param=where)
    room = longest - prompt
    if room < (most or 1):
        wanted = (
            f"{prompt + most} tokens ({prompt} in the {where}, {most} in the completion)"
            if most
            else (f"at least {prompt + 1} tokens ({prompt} in the {where}, and one to complete them)")
        )
        raise ApiError(
            400,
            f"This model's maximum context length is {longest} tokens. However, you requested {wanted}. "
            f"Please reduce the length of the {where} or completion.",
            param=where,
            code=TOO_LONG,
        )
    return most or min(room, default or room)


def _sampling(body: Generation, engine: OpenEngine, logprobs: int | None) -> Sampling:
    ends = frozenset() if body.ignore_eos else engine.tokenizer.eos_ids
    return Sampling(
        temperature=_or(body.temperature, 1.0),
        top_k=max(0, body.top_k or 0),
        top_p=_or(body.top_p, 1.0),
        min_p=_or(body.min_p, 0.0),
        seed=secrets.randbits(48) if body.seed is None else body.seed,
        repetition_penalty=_or(body.repetition_penalty, 1.0),
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        logit_bias=_bias(body.logit_bias or {}, engine.vocabulary),
        stop_ids=ends | frozenset(body.stop_token_ids or ()),
        min_tokens=body.min_tokens or 0,
        logprobs=logprobs,
    )


def _bias(given: dict[str, float], vocabulary: int) -> dict[int, float]:
    for token in given:
        if not (token.isascii() and token.isdigit() and len(token) < 10 and int(token) < vocabulary):
            raise ApiError(
                400,
                f"logit_bias: {token[:40]!a} is not a token id, which are whole numbers below {vocabulary}",
                param="logit_bias",
            )
    return {int(token): bias for token, bias in given.items()}


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
