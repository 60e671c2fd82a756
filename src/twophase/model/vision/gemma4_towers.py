"""Gemma 4's vision tower and its audio tower, a conformer."""

from twophase.errors import InputError
from twophase.model.keys import Keys
from twophase.model.vision.parts import linear, mlp, norm, pair, size
from twophase.model.vision.tower import Tower


def _vision(keys: Keys) -> int:
    width, head_dim = size(keys, "hidden_size"), size(keys, "head_dim")
    heads, kv_heads = size(keys, "num_attention_heads"), size(keys, "num_key_value_heads")
    attention = linear(width, (heads + 2 * kv_heads) * head_dim, bias=False)
    attention += linear(heads * head_dim, width, bias=False) + 2 * head_dim  # norms of queries and keys
    layer = attention + mlp(width, size(keys, "intermediate_size"), gated=True, bias=False) + 4 * width
    patch = linear(3 * size(keys, "patch_size") ** 2, width, bias=False)
    positions = 2 * size(keys, "position_embedding_size") * width  # a table for each axis
    return patch + positions + size(keys, "num_hidden_layers") * layer


def _audio(keys: Keys) -> int:
    width, heads = size(keys, "hidden_size"), size(keys, "num_attention_heads")
    if width % heads:
        raise InputError(f"{keys.where}: {heads} attention heads can't share hidden_size {width} evenly")
    feed_forward = mlp(width, 4 * width, bias=False) + 2 * width
    attention = 5 * linear(width, width, bias=False) + width // heads  # query, key, value, position, out
    convolution = linear(width, 3 * width, bias=False) + size(keys, "conv_kernel_size") * width + 2 * width
    layer = 2 * feed_forward + attention + convolution + 3 * width
    first, second = pair(keys, "subsampling_conv_channels")
    subsampling = (
        9 * first + 9 * first * second + norm(first, False) + norm(second, False)
    )  # 3×3, of one channel
    subsampling += linear(first // 4 * second, width, bias=False)
    return (
        subsampling + size(keys, "num_hidden_layers") * layer + linear(width, size(keys, "output_proj_dims"))
    )


VISION = Tower(
    "gemma4_vision",
    _vision,
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 16,
        "num_attention_heads": 12,
        "num_key_value_heads": 12,
        "head_dim": 64,
        "patch_size": 16,
        "position_embedding_size": 10240,
    },
)
AUDIO = Tower(
    "gemma4_audio",
    _audio,
    {
        "hidden_size": 1024,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "subsampling_conv_channels": (128, 32),
        "conv_kernel_size": 5,
        "output_proj_dims": 1536,
    },
)
