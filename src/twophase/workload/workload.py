"""A workload as arrays: when each request comes, how long it is, and what it has in common with others."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError

LATEST_S = 1e10  # three centuries: up to there a clock still tells microseconds
MOST_TOKENS = 1 << 40  # of a request; sums of many still fit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Blocks(NamedTuple):
    """Prompts as a trace tells what they consist of: an id stands for `tokens` tokens and all before them."""

    ids: Ints  # of all requests, one after the other
    starts: Ints  # [requests + 1] in ids
    tokens: int


class Streams(NamedTuple):
    """Prompts made of shared prefixes, and of conversations that grow."""

    prefix: Ints  # which one a prompt begins with; -1: none
    prefix_tokens: int
    conversation: Ints  # whose tokens the rest of prompt and output are; -1: nobody else's


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in order of arrival. Times in seconds after the beginning."""

    arrival_s: Floats  # where one follows another: after that one's end
    prompt_tokens: Ints  # of a later turn: with all before it
    output_tokens: Ints
    content: Blocks | Streams | None = None  # None: no two prompts begin alike
    priority: Ints | None = None  # smaller is served first
    follows: Ints | None = None  # the request whose answer it waits for; -1: none
    notes: tuple[str, ...] = ()  # what a reader must know

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def rate(self) -> float:
        """Requests a second, over the time in which they come."""
        lasted = float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) > 1 else 0.0
        return (len(self) - 1) / lasted if lasted > 0 else 0.0

    def require_sound(self) -> None:
        """InputError where it makes no sense, whoever made it: the clock and the books rest on it."""
        prompts, outputs = self.prompt_tokens, self.output_tokens
        if not len(self.arrival_s) == len(prompts) == len(outputs):
            raise InputError("a workload has as many arrivals as prompts and outputs")
        for name, counts in (("prompt", prompts), ("output", outputs)):
            if not np.all((counts >= 1) & (counts <= MOST_TOKENS)):
                raise InputError(
                    f"{name}_tokens of a workload must be whole numbers from 1 to {MOST_TOKENS:,}"
                )
        if not np.all((self.arrival_s >= 0) & (self.arrival_s <= LATEST_S)):
            raise InputError(f"requests must come within {LATEST_S:g} s from 0 on: give a shorter load")
        first = self.arrival_s if self.follows is None else self.arrival_s[self.follows < 0]
        if np.any(np.diff(first) < 0):
            raise InputError("requests of a workload must be in order of arrival")

    def first(self, count: int | None) -> "Workload":
        """The first `count` requests."""
        if count is None or count >= len(self):
            return self
        kept = slice(count)
        content = self.content
        if isinstance(content, Blocks):
            content = Blocks(
                content.ids[: content.starts[count]], content.starts[: count + 1], content.tokens
            )
        elif content is not None:
            content = Streams(content.prefix[kept], content.prefix_tokens, content.conversation[kept])
        return replace(
            self,
            arrival_s=self.arrival_s[kept],
            prompt_tokens=self.prompt_tokens[kept],
            output_tokens=self.output_tokens[kept],
            content=content,
            priority=None if self.priority is None else self.priority[kept],
            follows=None if self.follows is None else self.follows[kept],
        )

    def faster(self, factor: float) -> "Workload":
        """All that was recorded, in 1/factor of the time."""
        return replace(self, arrival_s=self.arrival_s / factor)
