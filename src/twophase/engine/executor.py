"""Runs passes on the real model: token ids in, greedy tokens out."""

import time
from collections.abc import Collection

import numba
import numpy as np

from twophase.cost.pass_ import Pass, Span
from twophase.engine.batch import make_batch
from twophase.engine.kv import KVPool, new_pool
from twophase.engine.network import Array, Network, forward
from twophase.errors import InputError
from twophase.scheduler.request import Outcome

WARMING = -1  # a sequence that no scheduler has


class Executor:
    """Holds the token ids of every sequence that was begun and not ended, and the KV cache.

    `positions`: the longest sequence that it will be given; `blocks`: the KV pool that a scheduler hands out.
    """

    def __init__(
        self, network: Network, blocks: int, positions: int, threads: int, stop_ids: Collection[int] = ()
    ) -> None:
        self.network = network
        self.pool: KVPool = new_pool(network.spec, blocks, network.compute, positions)
        self.threads = threads
        self.stop_ids = frozenset(stop_ids)
        self.tokens: dict[int, list[int]] = {}
        numba.set_num_threads(threads)

    def warm_up(self) -> None:
        """Compile the kernels, or load them compiled, by a pass that nobody sees."""
        self.begin(WARMING, [0, 0])
        self.run(Pass((Span(WARMING, 2, 0, (0,)),)))
        self.end(WARMING)

    def begin(self, sequence: int, prompt_ids: Collection[int]) -> None:
        """A sequence's prompt. InputError where an id is not in the vocabulary."""
        vocabulary = self.network.spec.vocab_size
        for token in prompt_ids:
            if not 0 <= token < vocabulary:
                raise InputError(f"token id {token} is outside the model's vocabulary of {vocabulary}")
        self.tokens[sequence] = list(prompt_ids)

    def end(self, sequence: int) -> list[int]:
        """Forget a sequence; its tokens, prompt and output."""
        return self.tokens.pop(sequence)

    def logits(self, pass_: Pass) -> Array:
        """float32 [spans that want logits, vocabulary]."""
        return forward(self.network, self.pool, make_batch(pass_, self.tokens), self.threads)

    def run(self, pass_: Pass) -> Outcome:
        """One pass; each span that wants logits keeps its likeliest next token."""
        started = time.perf_counter()
        best = np.argmax(self.logits(pass_), axis=1).tolist()
        seconds = time.perf_counter() - started
        wanting = [span.sequence for span in pass_.spans if span.logit_rows]
        kept = dict(zip(wanting, best, strict=True))
        for sequence, token in kept.items():
            self.tokens[sequence].append(token)
        stopped = [sequence for sequence, token in kept.items() if token in self.stop_ids]
        return Outcome({sequence: (token,) for sequence, token in kept.items()}, stopped, seconds)
