"""A user's own machine: factors and overheads that bring the curves to measured passes."""

from dataclasses import dataclass

import numpy as np

from twophase.cost import pass_times as columns
from twophase.cost.pass_times import PassTimes

PROMPT = [columns.PROMPT_PASS_S, columns.PROMPT_SPAN_S, columns.PROMPT_PAIR_S, columns.PROMPT_TOKEN_S]
DECODE = [columns.DECODE_PASS_S, columns.DECODE_SPAN_S, columns.DECODE_TOKEN_S]


@dataclass(frozen=True, slots=True)
class Calibration:
    pass_s: float = 0.0  # added to every pass
    row_s: float = 0.0  # added for each row
    sequence_s: float = 0.0  # added for each row that wants logits
    prompt_rows: float = 1.0  # factors: of what rows cost where a span has many
    decode_rows: float = 1.0
    prompt_attention: float = 1.0
    decode_attention: float = 1.0
    logits: float = 1.0
    interval: tuple[float, float] = (0.95, 1.05)
    source: str = ""


def scaled(times: PassTimes, own: Calibration) -> PassTimes:
    rows = np.arange(len(times.rows_s), dtype=np.float64)
    added = np.where(rows > 0, own.pass_s + own.row_s * rows, 0.0)
    mixers = times.mixers.copy()
    mixers[:, PROMPT] *= own.prompt_attention
    mixers[:, DECODE] *= own.decode_attention
    return times._replace(
        rows_s=times.rows_s * own.prompt_rows + added,
        decode_rows_s=times.decode_rows_s * own.decode_rows + added,
        logits_s=times.logits_s * own.logits + own.sequence_s * np.arange(len(times.logits_s)),
        mixers=mixers,
    )
