"""The seconds of mixing tokens in one layer, in the affine form of PassTimes.mixers."""

from collections.abc import Container
from math import log2
from typing import NamedTuple

from twophase.calibration.curves import AttentionCurve, Curves
from twophase.calibration.mixers import Mix
from twophase.cost.communication import ACTIVATION_BYTES
from twophase.hardware.accelerator import Accelerator

WIDENING = 0.6  # assumed: share of the peak at which cached vectors of latent attention are decompressed
SCORING = 0.4  # assumed: share of the peak at which an indexer scores keys
WIDE_BYTES = 1.5  # of a cached element, beyond which it is one of 16 bits


class MixTime(NamedTuple):
    """In the order of PassTimes.mixers' columns from PROMPT_PASS_S on; then what has no place in it."""

    prompt_pass_s: float = 0.0
    prompt_span_s: float = 0.0
    prompt_pair_s: float = 0.0
    prompt_token_s: float = 0.0
    decode_pass_s: float = 0.0
    decode_span_s: float = 0.0
    decode_token_s: float = 0.0
    row_s: float = 0.0  # for each row of a prompt
    mixed_token_s: float = 0.0
    prompt_full_rows: float = 0.0
    prompt_step: float = 0.0


def mix_time(mix: Mix, kv_bytes: float, accelerator: Accelerator, curves: Curves) -> MixTime:
    match mix.kind:
        case "attention":
            return _attention(mix, kv_bytes, accelerator, curves)
        case "latent":
            return _latent(mix, kv_bytes, accelerator, curves)
        case "index":
            return _index(mix, accelerator, curves)
        case _:
            return _recurrence(mix, accelerator, curves)


def cache_format(kv_bytes: float, measured: Container[str]) -> str:
    """The format whose curves speak for a cache."""
    return "bf16" if kv_bytes > WIDE_BYTES or "fp8" not in measured else "fp8"


def attention_curve(curves: Curves, kv_bytes: float, head_dim: int) -> AttentionCurve:
    """Of the nearest size of head, in the cache's format where that was measured."""
    kv = cache_format(kv_bytes, {name for name, _ in curves.attention})
    sizes = [size for name, size in curves.attention if name == kv]
    return curves.attention[kv, min(sizes, key=lambda size: abs(size - head_dim))]


def _attention(mix: Mix, kv_bytes: float, accelerator: Accelerator, curves: Curves) -> MixTime:
    own = attention_curve(curves, kv_bytes, mix.head_dim)
    peak, bandwidth = accelerator.peak_flops, accelerator.bandwidth
    group = max(mix.heads / mix.kv_heads, 1.0)
    read = mix.token_bytes / bandwidth * (own.decode_read + own.decode_group * log2(group))
    mixed = mix.token_bytes / bandwidth * (curves.mixed_read + curves.mixed_head_read * group)
    return MixTime(
        prompt_pass_s=own.prompt_launch_s,
        prompt_span_s=own.prompt_span_s,
        prompt_pair_s=mix.pair_flops / peak * own.prompt_pair,
        prompt_token_s=mix.token_bytes / bandwidth,
        decode_pass_s=own.decode_launch_s,
        decode_span_s=own.decode_span_s + own.decode_head_s * mix.kv_heads,
        decode_token_s=read,
        row_s=ACTIVATION_BYTES
        * mix.head_dim
        * 2
        * (mix.heads * own.prompt_query + mix.kv_heads * own.prompt_key)
        / bandwidth,
        mixed_token_s=max(mixed - read, 0.0),
        prompt_full_rows=own.prompt_full / mix.heads,
        prompt_step=own.prompt_step,
    )


def _latent(mix: Mix, kv_bytes: float, accelerator: Accelerator, curves: Curves) -> MixTime:
    own = curves.latent[cache_format(kv_bytes, curves.latent)]
    like = attention_curve(curves, kv_bytes, 128)
    peak, bandwidth = accelerator.peak_flops, accelerator.bandwidth
    return MixTime(
        prompt_pass_s=like.prompt_launch_s,
        prompt_span_s=like.prompt_span_s,
        prompt_pair_s=mix.pair_flops / peak * own.prompt_pair,
        prompt_token_s=mix.token_flops / (WIDENING * peak) + mix.token_bytes / bandwidth,
        decode_pass_s=like.decode_launch_s,
        decode_span_s=like.decode_span_s + like.decode_head_s,
        decode_token_s=mix.token_bytes / bandwidth * own.decode_read
        + mix.decode_pair_flops / peak * own.decode_pair,
    )


def _index(mix: Mix, accelerator: Accelerator, curves: Curves) -> MixTime:
    like = attention_curve(curves, 1.0, 128)
    pair_s = mix.pair_flops / (SCORING * accelerator.peak("fp8"))
    return MixTime(
        prompt_pass_s=like.prompt_launch_s,
        prompt_pair_s=pair_s,
        prompt_token_s=mix.token_bytes / accelerator.bandwidth,
        decode_pass_s=like.decode_launch_s,
        decode_token_s=max(mix.token_bytes / accelerator.bandwidth * like.decode_read, pair_s),
    )


def _recurrence(mix: Mix, accelerator: Accelerator, curves: Curves) -> MixTime:
    own = curves.recurrence
    state_s = mix.span_bytes / accelerator.bandwidth
    row_s = mix.row_flops / accelerator.peak_flops * own.prompt_flops
    return MixTime(
        prompt_pass_s=own.prompt_launch_s,
        prompt_span_s=state_s * own.prompt_span,
        decode_pass_s=own.decode_launch_s,
        decode_span_s=state_s * own.decode_span,
        row_s=row_s + mix.io_bytes / accelerator.bandwidth * own.prompt_row,
    )
