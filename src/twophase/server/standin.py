"""A stand-in for a GPU server: filler tokens, at the times that arithmetic gives an accelerator's passes."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from twophase.cost.pass_ import Pass, Span
from twophase.engine.sampling import Sampling, TokenLogprobs
from twophase.scheduler.block_keys import BlockKeys
from twophase.scheduler.request import PassOutcome

LOGPROB = -1.0  # of every token; each further alternative is less likely by as much


@dataclass(slots=True)
class Filler:
    """One sequence."""

    prompt: int  # tokens
    ids: list[int]
    sampling: Sampling
    keys: BlockKeys
    prompt_keys: Sequence[int]
    logprobs: list[TokenLogprobs]
    text: bytes  # what its words follow from: equal requests get equal text


@dataclass(slots=True)
class StandIn:
    """An executor without a model. Its tokens are `words` as prompt, seed and place choose them."""

    seconds: Callable[[Pass], float]
    words: Sequence[int]  # distinct
    block_size: int
    prefix_cache: bool = True
    _fillers: dict[int, Filler] = field(default_factory=dict)
    _salt: bytes = field(default_factory=lambda: os.urandom(16))

    def begin(self, sequence: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        keys = BlockKeys(self.block_size, self._salt)
        seed = sampling.seed if sampling.temperature else 0
        text = blake2b(repr((list(prompt_ids), seed)).encode(), digest_size=16).digest()
        prompt_keys = keys.extend(prompt_ids) if self.prefix_cache else []
        self._fillers[sequence] = Filler(
            len(prompt_ids), list(prompt_ids), sampling, keys, prompt_keys, [], text
        )

    def prompt_keys(self, sequence: int) -> Sequence[int]:
        return self._fillers[sequence].prompt_keys

    def end(self, sequence: int) -> list[int]:
        return self._fillers.pop(sequence).ids

    def logprobs(self, sequence: int) -> Sequence[TokenLogprobs]:
        return self._fillers[sequence].logprobs

    def run(self, pass_: Pass) -> PassOutcome:
        tokens: dict[int, Sequence[int]] = {}
        keys: dict[int, Sequence[int]] = {}
        stopped = []
        for span in pass_.spans:
            if span.logit_rows:
                filler = self._fillers[span.sequence]
                token = self._next(filler)
                tokens[span.sequence] = (token,)
                if token in filler.sampling.stop_ids:
                    stopped.append(span.sequence)
                if self.prefix_cache:
                    keys[span.sequence] = filler.keys.extend(filler.ids)
        return PassOutcome(tokens, stopped, self.seconds(pass_), block_keys=keys)

    def _next(self, filler: Filler) -> int:
        output = len(filler.ids) - filler.prompt
        silent = filler.sampling.stop_ids if output < filler.sampling.min_tokens else ()
        place = int.from_bytes(blake2b(output.to_bytes(8), key=filler.text, digest_size=6).digest())
        token = self.words[place % len(self.words)]
        while token in silent and len(silent) < len(self.words):
            place += 1
            token = self.words[place % len(self.words)]
        filler.ids.append(token)
        if filler.sampling.logprobs is not None:
            filler.logprobs.append(self._logprobs(token, filler.sampling.logprobs))
        return token

    def _logprobs(self, token: int, count: int) -> TokenLogprobs:
        others = [self.words[i] for i in range(min(count + 1, len(self.words))) if self.words[i] != token]
        likely = [token, *others][:count]
        return TokenLogprobs(LOGPROB, tuple((each, LOGPROB * (i + 1)) for i, each in enumerate(likely)))


def warm(seconds: Callable[[Pass], float]) -> None:
    """What is computed once a deployment is computed before the first request."""
    seconds(Pass((Span(0, 1, 0),)))
