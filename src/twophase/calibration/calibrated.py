"""A user's own machine: factors and overheads that bring PassTimes to measured passes."""

from dataclasses import astuple, dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twophase.cost import pass_times as columns
from twophase.cost.pass_seconds import pair_factor
from twophase.cost.pass_times import PassTimes

PROMPT = [columns.PROMPT_PASS_S, columns.PROMPT_SPAN_S, columns.PROMPT_PAIR_S, columns.PROMPT_TOKEN_S]
DECODE = [columns.DECODE_PASS_S, columns.DECODE_SPAN_S, columns.DECODE_TOKEN_S, columns.MIXED_TOKEN_S]
Base = Literal["floor", "curves"]


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Seconds that are added, and factors of what the base says."""

    prompt_pass_s: float = 0.0  # to every pass in which a span has many rows
    prompt_row_s: float = 0.0  # to it for each row
    decode_pass_s: float = 0.0  # to every other pass
    decode_row_s: float = 0.0
    prompt_rows: float = 1.0  # of PassTimes.rows_s
    decode_rows: float = 1.0
    prompt_attention: float = 1.0
    decode_attention: float = 1.0
    logits: float = 1.0


NAMES = tuple(each.name for each in fields(Coefficients))
UNCHANGED = np.array(astuple(Coefficients()))  # in the order of NAMES


@dataclass(frozen=True, slots=True)
class Calibration:
    coefficients: Coefficients
    base: Base  # what they multiply
    model: str
    accelerator: str
    engine: str
    passes: int  # that they were fitted on
    median_error: float | None  # relative, of those passes
    p90_error: float | None
    interval: tuple[float, float]  # of four passes in five: measured over estimated
    most_rows: int  # of a measured pass: beyond, it is extrapolated
    most_context: int
    source: str


def scaled(times: PassTimes, floor: PassTimes, own: Coefficients) -> PassTimes:
    """`times` of the calibration's base, brought to what was measured; never below the floor."""
    rows = np.arange(len(times.rows_s), dtype=np.float64)
    prompt = times.rows_s * own.prompt_rows + (rows > 0) * own.prompt_pass_s + rows * own.prompt_row_s
    decode = times.decode_rows_s * own.decode_rows + (rows > 0) * own.decode_pass_s + rows * own.decode_row_s
    mixers = times.mixers.copy()
    mixers[:, PROMPT] *= own.prompt_attention
    mixers[:, DECODE] *= own.decode_attention
    return times._replace(
        rows_s=np.maximum(prompt, floor.rows_s),
        decode_rows_s=np.maximum(decode, floor.decode_rows_s),
        logits_s=np.maximum(times.logits_s * own.logits, floor.logits_s),
        mixers=np.maximum(mixers, floor.mixers),
    )


def parts(times: PassTimes, shape: NDArray[np.int64], logits: int) -> NDArray[np.float64]:
    """A pass's seconds taken apart, in Coefficients' order: their sum by coefficients is the pass.

    shape: [spans, (new, context)].
    """
    new, context = shape[:, 0], shape[:, 1]
    like_decode = (new <= columns.FEW_ROWS) & (context > 0)
    rows = int(new.sum())
    at = min(rows, len(times.rows_s) - 1)
    more = rows / max(at, 1)  # beyond the table in proportion
    prompt_s, decode_s = _attention(times, new, context, like_decode)
    head = float(times.logits_s[min(logits, len(times.logits_s) - 1)])
    if like_decode.all():
        return np.array([0, 0, 1, rows, 0, times.decode_rows_s[at] * more, 0, decode_s, head])
    return np.array([1, rows, 0, 0, times.rows_s[at] * more, 0, prompt_s, decode_s, head])


def _attention(
    times: PassTimes, new: NDArray[np.int64], context: NDArray[np.int64], like_decode: NDArray[np.bool_]
) -> tuple[float, float]:
    prompts, decodes = ~like_decode, like_decode
    prompt_s = decode_s = 0.0
    for own in times.mixers:
        window = int(own[columns.WINDOW])
        reach = window - 1 if window else 1 << 60
        kept = np.minimum(context, reach)
        growing = np.clip(window - context, 0, new) if window else new
        pairs = growing * context + growing * (growing + 1) // 2 + (new - growing) * window
        if prompts.any():
            prompt_s += own[columns.PROMPT_PASS_S] + prompts.sum() * own[columns.PROMPT_SPAN_S]
            longer = pair_factor(own[columns.PROMPT_FULL_ROWS], own[columns.PROMPT_STEP], new[prompts].sum())
            prompt_s += pairs[prompts].sum() * longer * own[columns.PROMPT_PAIR_S]
            prompt_s += kept[prompts].sum() * own[columns.PROMPT_TOKEN_S]
        if decodes.any():
            decode_s += own[columns.DECODE_PASS_S] + decodes.sum() * own[columns.DECODE_SPAN_S]
            decode_s += kept[decodes].sum() * own[columns.DECODE_TOKEN_S]
            if prompts.any():
                decode_s += kept[decodes].sum() * own[columns.MIXED_TOKEN_S]
    return float(prompt_s), float(decode_s)
