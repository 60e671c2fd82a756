"""Vision transformers that several wrappers share: CLIP, SigLIP, Pixtral, InternViT."""

from twophase.errors import InputError
from twophase.model.keys import Keys
from twophase.model.vision.parts import block, linear, listed, norm, pair, patches, size, switch
from twophase.model.vision.tower import Tower


def _patch(keys: Keys, bias: bool) -> int:
    return linear(size(keys, "num_channels") * size(keys, "patch_size") ** 2, size(keys, "hidden_size"), bias)


def _siglip(keys: Keys) -> int:
    width = size(keys, "hidden_size")
    layer = block(width, size(keys, "intermediate_size"))
    # The pooling head is a layer with one norm fewer and a learned query.
    head = width + layer - norm(width) if switch(keys, "vision_use_head") else 0
    embeddings = _patch(keys, bias=True) + patches(keys) * width
    return embeddings + size(keys, "num_hidden_layers") * layer + norm(width) + head


def _clip(keys: Keys) -> int:
    width = size(keys, "hidden_size")
    layer = block(width, size(keys, "intermediate_size"))
    embeddings = _patch(keys, bias=False) + (patches(keys) + 1) * width + width
    return embeddings + size(keys, "num_hidden_layers") * layer + 2 * norm(width)


def _pixtral(keys: Keys) -> int:
    width, inner = size(keys, "hidden_size"), size(keys, "intermediate_size")
    layer = block(width, inner, qkv_bias=False, out_bias=False, gated=True, mlp_bias=False, norm_bias=False)
    return _patch(keys, bias=False) + width + size(keys, "num_hidden_layers") * layer


def _internvl(keys: Keys) -> int:
    width, inner = size(keys, "hidden_size"), size(keys, "intermediate_size")
    norm_type = keys.given("norm_type")
    if norm_type not in ("layer_norm", "rms_norm"):
        raise InputError(f"{keys.where}: norm_type is {norm_type!r:.40}; it must be layer_norm or rms_norm")
    layer = block(width, inner, qkv_bias=switch(keys, "attention_bias"), norm_bias=norm_type == "layer_norm")
    layer += 2 * width * (1 + switch(keys, "use_qk_norm"))  # the two layer scales
    height, breadth = pair(keys, "patch_size")
    rows, columns = (
        side // patch for side, patch in zip(pair(keys, "image_size"), (height, breadth), strict=True)
    )
    embeddings = linear(size(keys, "num_channels") * height * breadth, width) + width
    embeddings += width * switch(keys, "use_mask_token")
    if switch(keys, "use_absolute_position_embeddings"):
        embeddings += (rows * columns + 1) * width
    last = 0 if switch(keys, "use_mean_pooling") else norm(width)
    return embeddings + size(keys, "num_hidden_layers") * layer + last


def _mllama(keys: Keys) -> int:
    width, tiles = size(keys, "hidden_size"), size(keys, "max_num_tiles")
    layer = block(width, size(keys, "intermediate_size"), qkv_bias=False, out_bias=False)
    positions = patches(keys) + 1
    ratios = listed(keys, "supported_aspect_ratios") + 1
    # A table for all images, one per aspect ratio, and one before and after the encoder, each with its gate.
    embeddings = positions * width + ratios * tiles * (positions + 2) * width + 3
    embeddings += _patch(keys, bias=False) + width
    local, across = size(keys, "num_hidden_layers"), size(keys, "num_global_layers")
    return embeddings + 2 * norm(width) + local * layer + across * (layer + 2)


SIGLIP = Tower(
    "siglip_vision_model",
    _siglip,
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_channels": 3,
        "image_size": 224,
        "patch_size": 16,
        "vision_use_head": True,
    },
)
CLIP = Tower(
    "clip_vision_model",
    _clip,
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_channels": 3,
        "image_size": 224,
        "patch_size": 32,
    },
)
PIXTRAL = Tower(
    "pixtral",
    _pixtral,
    {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_channels": 3,
        "patch_size": 16,
    },
)
INTERNVL = Tower(
    "internvl_vision",
    _internvl,
    {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_channels": 3,
        "image_size": 448,
        "patch_size": 14,
        "norm_type": "layer_norm",
        "use_absolute_position_embeddings": True,
        "use_mean_pooling": True,
    },
)
MLLAMA = Tower(
    "mllama_vision_model",
    _mllama,
    {
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_global_layers": 8,
        "num_channels": 3,
        "image_size": 448,
        "patch_size": 14,
        "max_num_tiles": 4,
        "vision_output_dim": 7680,
        "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
    },
)
