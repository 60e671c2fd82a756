"""What a request asks of its sampling, and what it is told about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one sequence's tokens are chosen. The default is greedy.

    Every random choice depends on `seed` and the token's position alone, so a sequence is reproducible
    whoever else is in the batch, and with drafts as without.
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


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of probabilities, before temperature and penalties."""

    logprob: float  # of the token that was chosen
    top: tuple[tuple[int, float], ...]  # the likeliest (id, logprob), the likeliest first


GREEDY = Sampling()
