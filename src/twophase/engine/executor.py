"""Runs passes on the real model: token ids in, chosen tokens out."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twophase.cost.pass_ import Pass, Span
from twophase.engine.batch import make_batch
from twophase.engine.drafting import Drafter
from twophase.engine.kv import KVPool
from twophase.engine.network import Network, forward
from twophase.engine.sampler import SampledRows, SamplerState, all_logprobs, keep_tokens
from twophase.engine.sampling import GREEDY, Sampling, TokenLogprobs
from twophase.engine.scratch import Array, Scratch
from twophase.errors import InputError
from twophase.kernels.cache import BLOCK_SIZE
from twophase.scheduler.block_keys import BlockKeys
from twophase.scheduler.request import PassOutcome

WARMING = -1  # a sequence that no scheduler has
WARMING_ROWS = 64  # that take the kernels of many rows
# takes every kernel of sampling
EVERYTHING = Sampling(
    temperature=1.0, top_k=5, top_p=0.5, min_p=0.1, repetition_penalty=1.1, logprobs=1, min_tokens=1
)


@dataclass(slots=True)
class Known:
    """What is known of one sequence: its tokens, prompt and output, and how the next is chosen."""

    ids: list[int]
    sampler: SamplerState
    keys: BlockKeys | None  # None: there is no prefix cache
    prompt_keys: list[int]
    logprobs: list[TokenLogprobs] = field(default_factory=list)


class Executor:
    """Holds the tokens of every sequence that was begun and not ended, and the KV cache.

    `pool`: the KV blocks that a scheduler hands out; `prefix_cache`: whether it finds them again by keys.
    """

    def __init__(
        self,
        network: Network,
        pool: KVPool,
        threads: int,
        drafter: Drafter | None = None,
        *,
        prefix_cache: bool = True,
    ) -> None:
        self.network = network
        self.pool = pool
        self.threads = threads
        self.drafter = drafter
        self.known: dict[int, Known] = {}
        self._prefix_cache = prefix_cache
        self._scratch = Scratch()
        self._salt = secrets.token_bytes(16)

    def warm_up(self, sampling: Sampling = EVERYTHING) -> None:
        """Compile the kernels of few rows and of many, or load them compiled, by passes that nobody sees."""
        room = min(self.pool.blocks * BLOCK_SIZE, self.pool.positions)
        for rows in (min(2, room), min(WARMING_ROWS, room)):
            self.begin(WARMING, [0] * rows, sampling)
            self.run(Pass((Span(WARMING, rows, 0, tuple(range(-(-rows // BLOCK_SIZE)))),)))
            self.end(WARMING)

    def begin(self, sequence: int, prompt_ids: Sequence[int], sampling: Sampling = GREEDY) -> None:
        """A sequence's prompt. InputError where an id is not in the vocabulary."""
        vocabulary = self.network.spec.vocab_size
        for token in prompt_ids:
            if not 0 <= token < vocabulary:
                raise InputError(f"token id {token} is outside the model's vocabulary of {vocabulary}")
        sampling.require_vocabulary(vocabulary)
        ids = list(prompt_ids)
        keys = BlockKeys(BLOCK_SIZE, self._salt) if self._prefix_cache else None
        prompt_keys = keys.extend(ids) if keys else []
        self.known[sequence] = Known(ids, SamplerState(sampling, ids), keys, prompt_keys)
        if self.drafter:
            self.drafter.begin(sequence)

    def end(self, sequence: int) -> list[int]:
        """Forget a sequence; its tokens, prompt and output."""
        if self.drafter:
            self.drafter.end(sequence)
        return self.known.pop(sequence).ids

    def logprobs(self, sequence: int) -> Sequence[TokenLogprobs]:
        """Of its output tokens so far, where its sampling asked for them."""
        return self.known[sequence].logprobs

    def prompt_keys(self, sequence: int) -> Sequence[int]:
        """Of the full blocks of its prompt, for the scheduler's prefix cache."""
        return self.known[sequence].prompt_keys

    def logits(self, pass_: Pass, drafts: Mapping[int, Sequence[int]] | None = None) -> Array:
        """float32 [logit rows of all spans, vocabulary], which last until the next pass."""
        ids = {span.sequence: self.known[span.sequence].ids for span in pass_.spans}
        for sequence, guessed in (drafts or {}).items():
            ids[sequence] = [*ids[sequence], *guessed]
        return forward(self.network, self.pool, make_batch(pass_, ids), self.threads, self._scratch)

    def run(self, pass_: Pass) -> PassOutcome:
        """One pass; each span that wants logits keeps the next token, and the drafts before it that hold."""
        started = time.perf_counter()
        drafts = self._drafts(pass_)
        kept = self._keep(pass_, drafts, self.logits(pass_, drafts))
        stopped, planned, keys = [], {}, {}
        for sequence, tokens in kept.items():
            known = self.known[sequence]
            known.ids += tokens
            if known.keys:
                keys[sequence] = known.keys.extend(known.ids)
            if tokens[-1] in known.sampler.sampling.stop_ids:
                stopped.append(sequence)
            elif self.drafter:
                drafted = len(drafts.get(sequence, ()))
                planned[sequence] = self.drafter.plan(sequence, known.ids, drafted, len(tokens))
        return PassOutcome(kept, stopped, time.perf_counter() - started, planned, keys)

    def _drafts(self, pass_: Pass) -> dict[int, list[int]]:
        if self.drafter is None:
            return {}
        known = {span.sequence: self.known[span.sequence].ids for span in pass_.spans}
        return self.drafter.propose(pass_, known)

    def _keep(self, pass_: Pass, drafts: Mapping[int, Sequence[int]], logits: Array) -> dict[int, list[int]]:
        """What every span that wants logits keeps; samplers and logprobs are brought up to it."""
        sequences = [span.sequence for span in pass_.spans if span.logit_rows]
        if not sequences:
            return {}
        owners = [self.known[sequence] for sequence in sequences]
        asked = [
            SampledRows(known.sampler, len(known.ids), drafts.get(sequence, ()))
            for sequence, known in zip(sequences, owners, strict=True)
        ]
        kept = keep_tokens(logits, asked, self.threads)
        reported: list[tuple[Known, int, int]] = []  # (whose, row, token) of those that want logprobs
        first = 0
        for each, known, tokens in zip(asked, owners, kept, strict=True):
            for row, token in enumerate(tokens, first):
                known.sampler.accept(token)
                if known.sampler.sampling.logprobs is not None:
                    reported.append((known, row, token))
            first += 1 + len(each.drafts)
        if reported:
            rows, tokens = [row for _, row, _ in reported], [token for _, _, token in reported]
            tops = [known.sampler.sampling.logprobs or 0 for known, _, _ in reported]
            found = all_logprobs(logits[rows], tokens, tops, self.threads)
            for (known, _, _), each_found in zip(reported, found, strict=True):
                known.logprobs.append(each_found)
        return dict(zip(sequences, kept, strict=True))
