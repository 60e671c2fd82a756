"""Towers that one family alone has: Llama 4, Kimi K2.5, MiniMax M3, Step 3.7."""

from twophase.model.keys import Keys
from twophase.model.vision.parts import block, linear, norm, pair, patches, size
from twophase.model.vision.tower import Tower

KIMI_WIDTH = ("hidden_size", "vt_hidden_size")
KIMI_LAYERS = ("num_hidden_layers", "vt_num_hidden_layers")
STEP_WIDTH = ("width", "hidden_size")
STEP_LAYERS = ("layers", "num_hidden_layers")


def _llama4(keys: Keys) -> int:
    width, inner, out = (
        size(keys, key) for key in ("hidden_size", "intermediate_size", "projector_output_dim")
    )
    patch = linear(size(keys, "num_channels") * size(keys, "patch_size") ** 2, width, bias=False)
    embeddings = patch + (patches(keys) + 1) * width + width
    # Pixel shuffle turns the tower's width into the adapter's input, which the class reads as this.
    adapter = linear(inner, size(keys, "projector_input_dim"), bias=False) + linear(out, out, bias=False)
    layers = size(keys, "num_hidden_layers") * block(width, inner)
    return embeddings + layers + 2 * norm(width) + adapter


def _kimi_k25(keys: Keys) -> int:
    width, inner = size(keys, *KIMI_WIDTH), size(keys, "intermediate_size", "vt_intermediate_size")
    height = size(keys, "pos_emb_height", "init_pos_emb_height")
    breadth = size(keys, "pos_emb_width", "init_pos_emb_width")
    embeddings = linear(3 * size(keys, "patch_size") ** 2, width) + height * breadth * width
    return embeddings + size(keys, *KIMI_LAYERS) * block(width, inner) + norm(width)


def kimi_merged(keys: Keys) -> int:
    """The width of a merged patch, which the projector takes in."""
    height, breadth = pair(keys, "merge_kernel_size")
    return size(keys, *KIMI_WIDTH) * height * breadth


def _minimax_m3(keys: Keys) -> int:
    width = size(keys, "hidden_size")
    inputs = size(keys, "num_channels") * size(keys, "temporal_patch_size") * size(keys, "patch_size") ** 2
    layers = size(keys, "num_hidden_layers") * block(width, size(keys, "intermediate_size"))
    return linear(inputs, width, bias=False) + norm(width) + layers


def _step3p7(keys: Keys) -> int:
    width = size(keys, *STEP_WIDTH)
    patch = linear(size(keys, "num_channels") * size(keys, "patch_size") ** 2, width, bias=False)
    embeddings = patch + patches(keys) * width + norm(width)
    layer = block(width, int(width * keys.number("mlp_ratio"))) + 2 * width  # the two layer scales
    downsamplers = linear(9 * width, 2 * width) + linear(9 * 2 * width, 4 * width)  # 3×3 convolutions
    return embeddings + size(keys, *STEP_LAYERS) * layer + downsamplers


LLAMA4 = Tower(
    "llama4_vision_model",
    _llama4,
    {
        "hidden_size": 768,
        "intermediate_size": 5632,
        "num_hidden_layers": 34,
        "num_channels": 3,
        "image_size": 448,
        "patch_size": 14,
        "vision_output_dim": 7680,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
    },
)
KIMI_K25 = Tower(
    "kimi_k25_vision",
    _kimi_k25,
    {
        "vt_hidden_size": 1152,
        "vt_intermediate_size": 4304,
        "vt_num_hidden_layers": 27,
        "patch_size": 14,
        "init_pos_emb_height": 64,
        "init_pos_emb_width": 64,
        "merge_kernel_size": (2, 2),
        "mm_hidden_size": 1152,
    },
    KIMI_LAYERS,
    KIMI_WIDTH,
)
MINIMAX_M3 = Tower(
    "minimax_m3_vl_vision",
    _minimax_m3,
    {
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_channels": 3,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
    },
)
STEP3P7 = Tower(
    "step3p5_vision",
    _step3p7,
    {
        "hidden_size": 1536,
        "mlp_ratio": 8960 / 1536,
        "num_hidden_layers": 47,
        "num_channels": 3,
        "image_size": 728,
        "patch_size": 14,
    },
    STEP_LAYERS,
    STEP_WIDTH,
)
