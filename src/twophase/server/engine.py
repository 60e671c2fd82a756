"""What the server needs of an engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from twophase.cost.pass_ import Pass
from twophase.engine.sampling import Sampling, TokenLogprobs
from twophase.engine.text import Tokenizer
from twophase.scheduler.request import Limits, PassOutcome
from twophase.server.phases import Price


class Executor(Protocol):
    """Runs passes, and knows the tokens of every sequence that was begun and not ended."""

    def begin(self, sequence: int, prompt_ids: Sequence[int], sampling: Sampling) -> None: ...

    def run(self, pass_: Pass) -> PassOutcome: ...

    def end(self, sequence: int) -> list[int]:
        """Forget it; all its ids."""

    def logprobs(self, sequence: int) -> Sequence[TokenLogprobs]:
        """Of its output tokens so far, where asked for."""

    def prompt_keys(self, sequence: int) -> Sequence[int]:
        """Of the full blocks of its prompt, for the prefix cache; none where there is no such cache."""


class ServerClock(Protocol):
    """A scheduler's clock that any thread may read."""

    lost_s: float  # by which a clock that is not this machine's own fell behind

    def now(self) -> float: ...

    def advance(self, seconds: float) -> None: ...

    def wait_until(self, moment: float) -> None: ...

    def rest(self) -> None:
        """Nobody is here: no pass follows the last one directly."""


class ChatTemplate(Protocol):
    def __call__(self, messages: Sequence[Mapping[str, Any]], **more: Any) -> str:
        """The prompt's text. InputError where it takes no such messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What whoever starts the server says about its size; None: what the engine chooses."""

    context_length: int | None = None
    max_sequences: int | None = None
    max_tokens: int | None = None  # rows of one pass
    blocks: int | None = None
    kv_pool_bytes: float | None = None  # of one device
    prefix_cache: bool = True


ALL_CHOSEN = Sizes()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEngine:
    """All that serves a model."""

    name: str  # as clients call it
    executor: Executor
    limits: Limits
    clock: ServerClock
    price: Price
    tokenizer: Tokenizer
    vocabulary: int
    chat_template: ChatTemplate | None = None
    template_has_bos: bool = True  # it writes the BOS token itself, as models' own do
    default_output: int | None = None  # a chat's tokens where nobody says; None: all that the context allows
    notes: tuple[str, ...] = ()  # what whoever starts the server must know
    kv_bytes: float = 0.0  # of the pool, on one device
    facts: Mapping[str, str] = field(default_factory=dict)  # labels of cache_config_info

    @property
    def longest(self) -> int:
        """Tokens of one sequence, prompt and output; the last token's KV is never needed."""
        return min(self.limits.context_length, self.limits.blocks * self.limits.block_size + 1)
