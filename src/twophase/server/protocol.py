"""OpenAI's requests, as far as they are understood; fields that are not are ignored, wrong types are not."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_CHOICES = 128
MOST_PROMPTS = 2048
MOST_STOPS = 16
MOST_LOGPROBS = 20
LARGEST = 2**31 - 1

Finite = Annotated[float, Field(allow_inf_nan=False)]
TokenId = Annotated[int, Field(ge=0, le=LARGEST)]
TokenIds = Annotated[list[TokenId], Field(min_length=1)]
Stop = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", protected_namespaces=())


class StreamOptions(Body):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Generation(Body):
    """What both ways to generate share."""

    model: str | None = None
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    max_tokens: int | None = Field(None, ge=1, le=LARGEST)
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    temperature: Finite | None = Field(None, ge=0, le=100)
    top_p: Finite | None = Field(None, gt=0, le=1)
    presence_penalty: Finite | None = Field(None, ge=-2, le=2)
    frequency_penalty: Finite | None = Field(None, ge=-2, le=2)
    logit_bias: dict[str, Annotated[Finite, Field(ge=-100, le=100)]] | None = None
    # vLLM's
    top_k: int | None = Field(None, ge=-1, le=LARGEST)
    min_p: Finite | None = Field(None, ge=0, le=1)
    repetition_penalty: Finite | None = Field(None, ge=0.01, le=100)
    ignore_eos: bool | None = None
    min_tokens: int | None = Field(None, ge=0, le=LARGEST)
    include_stop_str_in_output: bool | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=1024)] | None = None
    priority: int | None = Field(None, ge=-(2**31), le=LARGEST)
    return_token_ids: bool | None = None


class CompletionRequest(Generation):
    prompt: (
        str
        | Annotated[list[str], Field(min_length=1, max_length=MOST_PROMPTS)]
        | TokenIds
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MOST_PROMPTS)]
    )
    best_of: int | None = Field(None, ge=1, le=MOST_CHOICES)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    suffix: str | None = None


class Part(Body):
    type: str
    text: str | None = None


class Message(Body):
    model_config = ConfigDict(strict=True, extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None


class ResponseFormat(Body):
    type: str


class ChatRequest(Generation):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1, le=LARGEST)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    response_format: ResponseFormat | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    modalities: list[str] | None = None
    chat_template_kwargs: Mapping[str, Any] | None = None


class TokenizeRequest(Body):
    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = Field(None, min_length=1)
    add_special_tokens: bool | None = None


class DetokenizeRequest(Body):
    model: str | None = None
    tokens: list[TokenId]
