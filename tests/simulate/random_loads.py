"""Random workloads, limits and pass times on which every rule of the scheduler is met."""

import numpy as np

from twophase.cost import pass_times as columns
from twophase.cost.pass_times import PassTimes
from twophase.scheduler.request import Limits
from twophase.simulate.books import Requests
from twophase.simulate.setting_up import requests_of


def pass_times(
    rows: int, sequences: int, windows: tuple[int, ...] = (0,), scale: float = 1.0, full: float = 0.0
) -> PassTimes:
    """Seconds of the order of one: 2 for weights, a hundredth for a row, and so on; FLOPs and bytes below."""
    each_row = np.arange(rows + 1.0)
    mixers = np.zeros((len(windows), columns.COLUMNS))
    mixers[:, 0] = windows
    mixers[:, 1:11] = 0.05, 0.02, 1e-4, 3e-4, 0.03, 0.01, 7e-4, 1.0, 1.0, 2e-4
    mixers[:, 1:11] *= scale
    mixers[:, [columns.PROMPT_FULL_ROWS, columns.PROMPT_STEP]] = full, np.sqrt(0.1) * (full > 0)
    rows_s = scale * (2.0 + np.maximum(0.3, 0.01 * each_row))
    logits = np.arange(sequences + 1.0)
    return PassTimes(
        *(rows_s, 0.9 * rows_s, 0.002 * logits, mixers),
        *(100 * each_row, np.full(rows + 1, 1000.0), 10 * logits, logits),
        np.array([1e6, 1e6]),
    )


def load(seed: int, *, drafts: bool, outputs_keyed: bool) -> tuple[Requests, Limits, PassTimes]:
    """Eighty requests on a pool too small for them; prompts share prefixes, some requests can never fit."""
    draw = np.random.default_rng(seed)
    count, size = 80, int(draw.choice([4, 8]))
    blocks, seats = int(draw.integers(20, 60)), int(draw.integers(3, 14))
    limits = Limits(
        blocks=blocks,
        context_length=150,
        max_sequences=seats,
        max_tokens=int(draw.choice([seats, 24, 150])),
        block_size=size,
        prefix_cache=bool(draw.random() < 0.8),
    )
    prompt = draw.integers(1, 80, count)
    output = np.where(draw.random(count) < 0.1, 1, draw.integers(1, 60, count))
    output[draw.random(count) < 0.04] = 200
    keyed = (prompt + (output if outputs_keyed else 0)) // size
    offsets = np.concatenate([[0], np.cumsum(keyed)])
    keys = np.empty(offsets[-1], np.int64)
    for row in range(count):
        shared, group = int(draw.integers(0, 8)), int(draw.integers(0, 4))
        own = [100 * (group + 1) + i if i < shared else 10**6 * (row + 1) + i for i in range(keyed[row])]
        keys[offsets[row] : offsets[row + 1]] = own
    arrival = np.cumsum(draw.exponential(draw.choice([4.0, 15.0, 60.0]), count))
    requests = requests_of(
        arrival,
        prompt,
        output,
        priority=draw.integers(0, 3, count),
        keys=keys,
        key_offsets=offsets,
        drafts=draw.integers(0, 4, count) if drafts else 0,
        acceptance=draw.random(count) if drafts else 0.0,
    )
    windows = ((0,), (0, 30), (12, 50))[int(draw.integers(0, 3))]
    return requests, limits, pass_times(150, seats, windows, full=21)
