"""What a request asks of its sampling, and what it is told about it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from twophase.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one sequence's tokens are chosen. The default is greedy. InputError for what can't be meant.

    Every random choice depends on `seed` and the token's position alone, so a sequence is reproducible
    whoever else is in the batch, and with drafts as without. In this order: bias, penalties, min_tokens,
    temperature, top_k, top_p, min_p, each on what the one before left.
    """

    temperature: float = 0.0  # 0: the likeliest token
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0  # of tokens in prompt or output, as in transformers
    presence_penalty: float = 0.0  # of tokens in the output, as in OpenAI's API
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # by token id
    stop_ids: frozenset[int] = frozenset()  # tokens that end it; they are kept as its last
    min_tokens: int = 0  # output tokens before which no stop id is chosen
    logprobs: int | None = None  # alternatives to report for every token; None: no logprobs at all

    def __post_init__(self) -> None:
        rules = (
            ("temperature", 0 <= self.temperature < math.inf, "0 or more"),
            ("top_k", self.top_k >= 0, "at least 1, or 0 for all"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("repetition_penalty", 0.01 <= self.repetition_penalty <= 100, "from 0.01 to 100"),
            ("presence_penalty", math.isfinite(self.presence_penalty), "a finite number"),
            ("frequency_penalty", math.isfinite(self.frequency_penalty), "a finite number"),
            ("min_tokens", self.min_tokens >= 0, "0 or more"),
            ("logprobs", self.logprobs is None or self.logprobs >= 0, "0 or more"),
        )
        for name, holds, right in rules:
            if not holds:
                raise InputError(f"{name} is {getattr(self, name)}; it must be {right}")
        for token, bias in self.logit_bias.items():
            if not -math.inf <= bias < math.inf:
                raise InputError(f"logit_bias of token {token} is {bias}; it must be a number")

    def require_vocabulary(self, size: int) -> None:
        """InputError where a biased token or more logprobs are asked for than the vocabulary has."""
        for token in self.logit_bias:
            if not 0 <= token < size:
                raise InputError(f"logit_bias names token {token}, outside the model's vocabulary of {size}")
        if self.logprobs is not None and self.logprobs > size:
            raise InputError(f"logprobs is {self.logprobs}; the model's vocabulary has {size} tokens")


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of probabilities, before temperature and penalties."""

    logprob: float  # of the token that was chosen
    top: tuple[tuple[int, float], ...]  # the likeliest (id, logprob), the likeliest first


GREEDY = Sampling()
