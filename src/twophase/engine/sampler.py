"""From logits to tokens: penalties, draws that depend on seed and position alone, drafts accepted or not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.engine.sampling import Sampling, TokenLogprobs
from twophase.kernels.sampling import BLOCK, DRAW, block_maxima, block_sums, draw_tokens, likeliest

Array = NDArray[Any]
COLDEST = 1e-5  # temperatures below it are greedy, as in vLLM
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


class LogitsError(ArithmeticError):
    """A row of logits has NaN in it, or no largest that is finite: the pass that made it has failed."""


class SamplerState:
    """One sequence's sampling, and the tokens that its penalties are about. `accept` all of its output."""

    def __init__(self, sampling: Sampling, prompt_ids: Sequence[int] = ()) -> None:
        self.sampling = sampling
        self.prompt_tokens = len(prompt_ids)
        self.penalised = bool(
            sampling.repetition_penalty != 1 or sampling.presence_penalty or sampling.frequency_penalty
        )
        self._bias = np.fromiter(sampling.logit_bias.keys(), np.int64, len(sampling.logit_bias))
        self._biases = np.fromiter(sampling.logit_bias.values(), np.float32, len(sampling.logit_bias))
        self._stops = np.fromiter(sampling.stop_ids, np.int64, len(sampling.stop_ids))
        self._places: dict[int, int] = {}  # of each token seen in the two arrays
        self._seen = np.zeros(0, np.int64)
        self._counts = np.zeros(0, np.float32)  # in the output
        if self.penalised:
            self._seen = np.unique(np.asarray(prompt_ids, np.int64))
            self._counts = np.zeros(len(self._seen), np.float32)
            self._places = {token: place for place, token in enumerate(self._seen.tolist())}

    def accept(self, token: int) -> None:
        """A token of the output that is kept."""
        if not self.penalised:
            return
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._seen):  # grow by half, so that it is rare
            room = max(16, place // 2)
            self._seen = np.append(self._seen, np.zeros(room, np.int64))
            self._counts = np.append(self._counts, np.zeros(room, np.float32))
        self._seen[place] = token
        self._counts[place] += 1

    def change(self, logits: Array, position: int, drafts: Sequence[int]) -> tuple[Array, Array]:
        """Bias, penalties and min_tokens, in place; the ids that changed, and what their logits were.

        logits: [vocabulary], of the token at `position`, where the output goes on with `drafts` before it.
        """
        sampling, seen, counts = self.sampling, self._seen[: len(self._places)], self._counts
        counts = counts[: len(seen)]
        if self.penalised and drafts:
            seen, counts = self._with(drafts)
        early = position - self.prompt_tokens < sampling.min_tokens
        stops = self._stops[self._stops < len(logits)] if early else self._stops[:0]
        changed = np.concatenate([self._bias, seen, stops])
        before = logits[changed]
        logits[self._bias] += self._biases
        if self.penalised:
            values = logits[seen]
            penalty = np.float32(sampling.repetition_penalty)
            values = np.where(values < 0, values * penalty, values / penalty)
            values -= np.float32(sampling.frequency_penalty) * counts
            values -= np.float32(sampling.presence_penalty) * (counts > 0)
            logits[seen] = values
        logits[stops] = -np.inf
        return changed, before

    def _with(self, drafts: Sequence[int]) -> tuple[Array, Array]:
        """Tokens seen and their counts as they are once the drafts are accepted."""
        new = [token for token in dict.fromkeys(drafts) if token not in self._places]
        places = self._places | {token: len(self._places) + i for i, token in enumerate(new)}
        seen = np.append(self._seen[: len(self._places)], np.array(new, np.int64))
        counts = np.append(self._counts[: len(self._places)], np.zeros(len(new), np.float32))
        np.add.at(counts, [places[token] for token in drafts], 1)
        return seen, counts


@dataclass(frozen=True, slots=True)
class SampledRows:
    """One sequence's rows in a pass: 1 + len(drafts), each after the drafts before it.

    position: of the first row's token in the sequence, counting the prompt.
    """

    state: SamplerState
    position: int
    drafts: Sequence[int] = ()


def uniform(seed: int, position: int) -> float:
    """In [0, 1), by (seed, position) alone: SplitMix64 (Steele, Lea and Flood 2014), from a mixed seed."""
    return (_mix(_mix(seed) + (position + 1) * GOLDEN) >> 11) * 2.0**-53


def keep_tokens(logits: Array, asked: Sequence[SampledRows], threads: int = 1) -> list[list[int]]:
    """The tokens that each sequence keeps: one, and one for each draft that was what would be chosen there.

    A stop id is the last. logits: float32 [rows of all that is asked, vocabulary], as they were afterwards
    too, rows contiguous. The states don't accept the tokens: that is the caller's. Raises LogitsError.
    """
    rows = [(each, i) for each in asked for i in range(1 + len(each.drafts))]
    changed = []
    try:
        for row, (each, i) in zip(logits, rows, strict=True):
            sampling = each.state.sampling
            if each.state.penalised or sampling.logit_bias or sampling.min_tokens:
                changed.append((row, *each.state.change(row, each.position + i, each.drafts[:i])))
        chosen = iter(
            _choose(logits, [(each.state.sampling, each.position + i) for each, i in rows], threads)
        )
    finally:
        for row, ids, before in changed:
            row[ids] = before
    return [_kept([next(chosen) for _ in range(1 + len(each.drafts))], each) for each in asked]


def all_logprobs(
    logits: Array, tokens: Sequence[int], tops: Sequence[int], threads: int = 1
) -> list[TokenLogprobs]:
    """Of each row's token, and of its `top` likeliest. logits: float32 [rows, vocabulary], as computed."""
    rows, vocabulary = logits.shape
    flat, stride = _flat(logits)
    maxima, best = _maxima(logits, threads)
    sums = np.zeros_like(maxima)
    block_sums(flat, stride, vocabulary, maxima, best, np.ones(rows, np.float32), sums, threads)
    normalisers = best + np.log(sums.sum(axis=1, dtype=np.float64))
    found = []
    for i, (row, token, normaliser) in enumerate(zip(logits, tokens, normalisers, strict=True)):
        ids = np.zeros(min(tops[i], vocabulary), np.int64)
        if len(ids):
            likeliest(flat, i * stride, vocabulary, maxima[i], ids)
        ids = ids[np.argsort(-row[ids], kind="stable")]
        top = zip(ids.tolist(), (row[ids] - normaliser).tolist(), strict=True)
        found.append(TokenLogprobs(float(row[token] - normaliser), tuple(top)))
    return found


def _choose(logits: Array, rows: Sequence[tuple[Sampling, int]], threads: int) -> list[int]:
    draws = np.zeros(len(rows), DRAW)
    draws[:] = [_draw(sampling, position, logits.shape[1]) for sampling, position in rows]
    maxima, best = _maxima(logits, threads)
    chosen = np.zeros(len(rows), np.int64)
    drawn = draws["inverse_temperature"] > 0
    for row in np.flatnonzero(~drawn):  # the lowest id with the largest logit
        first = int(maxima[row].argmax()) * BLOCK
        chosen[row] = first + logits[row, first : first + BLOCK].argmax()
    if drawn.any():
        flat, stride = _flat(logits)
        sums = np.zeros_like(maxima)
        by_mass = (draws["top_k"] == 0) & ((draws["top_p"] < 1) | (draws["min_p"] == 0))
        slopes = np.where(by_mass, draws["inverse_temperature"], np.float32(0))
        if slopes.any():
            block_sums(flat, stride, logits.shape[1], maxima, best, slopes, sums, threads)
        counter = np.zeros(1, np.int64)
        draw_tokens(flat, stride, logits.shape[1], maxima, sums, best, draws, chosen, counter, threads)
    return chosen.tolist()


def _draw(sampling: Sampling, position: int, vocabulary: int) -> tuple[float, int, float, float, float]:
    if sampling.temperature < COLDEST or sampling.top_k == 1:
        return (0.0, 0, 1.0, 0.0, 0.0)
    return (
        1 / sampling.temperature,
        sampling.top_k if sampling.top_k < vocabulary else 0,
        sampling.top_p,
        sampling.min_p,
        uniform(sampling.seed, position),
    )


def _maxima(logits: Array, threads: int) -> tuple[Array, Array]:
    """The largest logit of each block and of each row. LogitsError where one is NaN or none is finite."""
    rows, vocabulary = logits.shape
    maxima = np.empty((rows, -(-vocabulary // BLOCK)), np.float32)
    flat, stride = _flat(logits)
    block_maxima(flat, stride, vocabulary, maxima, threads)
    best = maxima.max(axis=1)
    if not np.isfinite(best).all():
        row = int(np.flatnonzero(~np.isfinite(best))[0])
        raise LogitsError(
            f"row {row} of {rows}: the largest logit is {best[row]}; the model's output is broken"
        )
    return maxima, best


def _flat(logits: Array) -> tuple[Array, int]:
    """The rows in one array, with what lies between them, and how far apart they begin."""
    stride = logits.strides[0] // logits.itemsize
    size = (len(logits) - 1) * stride + logits.shape[1]
    return np.lib.stride_tricks.as_strided(logits, (size,), (logits.itemsize,)), stride


def _kept(chosen: Sequence[int], asked: SampledRows) -> list[int]:
    kept = []
    for token, draft in zip(chosen, [*asked.drafts, None], strict=True):
        kept.append(token)
        if token != draft or token in asked.state.sampling.stop_ids:
            break
    return kept


def _mix(value: int) -> int:
    value &= MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)
