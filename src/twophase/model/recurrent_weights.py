"""The weights of layers that carry a state. d: d_model, what goes in and comes out."""

from collections.abc import Iterator

from twophase.model.mixers import GatedDelta, KimiDelta, LightningAttention, Mamba, Mamba2, ShortConvolution
from twophase.model.spec import Weight


def gated_delta(own: GatedDelta, d: int) -> Iterator[Weight]:
    keys, values, heads = own.key_heads * own.key_dim, own.value_heads * own.value_dim, own.value_heads
    at, units = "linear_attn.", own.key_heads
    if own.fused:
        yield _dealt(at + "in_proj_qkvz", 2 * keys + 2 * values, d, units)
        yield _dealt(at + "in_proj_ba", 2 * heads, d, units)
    else:
        yield _dealt(at + "in_proj_qkv", 2 * keys + values, d, units)
        yield _dealt(at + "in_proj_z", values, d, units)
        yield _dealt(at + "in_proj_b", heads, d, units)
        yield _dealt(at + "in_proj_a", heads, d, units)
    yield _dealt(at + "conv1d", (2 * keys + values) * own.kernel, 0, units)
    yield _dealt(at + "dt_bias", heads, 0, units)
    yield _dealt(at + "A_log", heads, 0, units)
    yield Weight(at + "norm", "norms", own.value_dim)
    yield Weight(at + "out_proj", "recurrent", d, values, split="inputs", units=units)


def _dealt(name: str, outputs: int, inputs: int, units: int) -> Weight:
    """A weight of a recurrence whose outputs are dealt out by heads."""
    return Weight(name, "recurrent", outputs, inputs, split="outputs", units=units)


def kimi_delta(own: KimiDelta, d: int) -> Iterator[Weight]:
    keys, values, heads, at = own.heads * own.key_dim, own.heads * own.value_dim, own.heads, "self_attn."
    for name, width in (("q", keys), ("k", keys), ("v", values)):
        yield _dealt(f"{at}{name}_proj", width, d, heads)
        yield _dealt(f"{at}{name}_conv1d", width * own.kernel, 0, heads)
    yield Weight(at + "f_a_proj", "recurrent", own.key_dim, d)
    yield _dealt(at + "f_b_proj", keys, own.key_dim, heads)
    if own.full_gate:
        yield _dealt(at + "g_proj", values, d, heads)
    else:
        yield Weight(at + "g_a_proj", "recurrent", own.key_dim, d)
        yield _dealt(at + "g_b_proj", values, own.key_dim, heads)
    yield _dealt(at + "b_proj", heads, d, heads)
    yield _dealt(at + "A_log", heads, 0, heads)
    yield _dealt(at + "dt_bias", keys, 0, heads)
    yield Weight(at + "o_norm", "norms", own.value_dim)
    yield Weight(at + "o_proj", "recurrent", d, values, split="inputs", units=heads)


def mamba2(own: Mamba2, d: int) -> Iterator[Weight]:
    inner, at, heads = own.heads * own.head_dim, "mixer.", own.heads
    mixed = inner + 2 * own.groups * own.state_dim  # what the convolution sees
    yield _dealt(at + "in_proj", inner + mixed + heads, d, heads)
    yield _dealt(at + "conv1d", mixed * (own.kernel + own.conv_bias), 0, heads)
    yield _dealt(at + "dt_bias", heads, 0, heads)
    yield _dealt(at + "A_log", heads, 0, heads)
    yield _dealt(at + "D", heads, 0, heads)
    if own.norm:
        yield Weight(at + "norm", "norms", inner)
    yield Weight(at + "out_proj", "recurrent", d, inner, split="inputs", units=heads)
    if own.bias:
        yield Weight(at + "bias", "recurrent", inner + mixed + heads + d)


def mamba(own: Mamba, d: int) -> Iterator[Weight]:
    inner, at = own.inner, "mamba."
    low = own.dt_rank + 2 * own.state_dim
    yield _dealt(at + "in_proj", 2 * inner, d, inner)
    yield _dealt(at + "conv1d", inner * (own.kernel + own.conv_bias), 0, inner)
    yield Weight(at + "x_proj", "recurrent", low, inner, split="inputs")
    yield _dealt(at + "dt_proj", inner, own.dt_rank, inner)
    yield _dealt(at + "dt_proj.bias", inner, 0, inner)
    yield _dealt(at + "A_log", inner * own.state_dim, 0, inner)
    yield _dealt(at + "D", inner, 0, inner)
    if own.norms:
        yield Weight(at + "layernorms", "norms", low)
    yield Weight(at + "out_proj", "recurrent", d, inner, split="inputs")
    if own.bias:
        yield Weight(at + "bias", "recurrent", 2 * inner + d)


def lightning_attention(own: LightningAttention, d: int) -> Iterator[Weight]:
    width, at = own.heads * own.head_dim, "self_attn."
    yield _dealt(at + "qkv_proj", 3 * width, d, own.heads)
    yield _dealt(at + "output_gate", width, d, own.heads)
    yield Weight(at + "norm", "norms", width)
    yield Weight(at + "out_proj", "recurrent", d, width, split="inputs", units=own.heads)


def short_convolution(own: ShortConvolution, d: int) -> Iterator[Weight]:
    at, width = "conv.", own.width
    yield _dealt(at + "in_proj", 3 * width, d, width)
    yield _dealt(at + "conv", width * (own.kernel + own.bias), 0, width)
    yield Weight(at + "out_proj", "recurrent", d, width, split="inputs")
    if own.bias:
        yield Weight(at + "bias", "recurrent", 3 * width + d)
