"""The layout that an engine makes of a model's caches on one device."""

from dataclasses import replace

from twophase.fit.pools import Kinds, Layout, Paging, sglang_layout, trtllm_layout, vllm_layout
from twophase.fit.reserves import Reserves
from twophase.fit.serving import Serving, Settings
from twophase.model.cache import CONVOLUTION_BYTES, STATE_BYTES, LayerCache, caches, state_elements
from twophase.model.formats import KV_FORMATS
from twophase.model.mixers import Attending
from twophase.model.spec import ModelSpec

# vLLM keeps a recurrence's state in float32 only where a model's config or code asks for it. Its logs say 544
# tokens a block for Qwen3-Next, which is a state in 16 bits, and 784 for Qwen3.5 27B, which is one in 32.
STATE_IN_16_BITS = frozenset({"qwen3_next", "jamba", "bamba", "falcon_h1", "granitemoehybrid", "minimax"})


def layout_of(
    spec: ModelSpec, layers: range, own: Serving, settings: Settings, constants: Reserves
) -> Layout:
    """`layers`: those of one pipeline stage."""
    kinds = kinds_of(spec, layers, own)
    if not kinds:
        return Layout(())
    match own.engine:
        case "vllm":
            caching, without = constants.state_blocks
            paging = Paging(
                block_tokens=settings.block_size,
                batched_tokens=settings.max_num_batched_tokens,
                groups_windows=constants.groups_windows,
                state_blocks=caching if own.prefix_caching else without,
                widest_group=constants.widest_group,
            )
            return vllm_layout(kinds, paging)
        case "sglang":
            return sglang_layout(kinds)
        case "trtllm":
            return trtllm_layout(kinds, settings.block_size, settings.max_model_len)
        case "plain":
            return Layout(kinds)


def kinds_of(spec: ModelSpec, layers: range, own: Serving) -> Kinds:
    """The caches of a stage's layers on one device."""
    stage = replace(spec, layers=tuple(spec.layers[i] for i in layers))
    found = caches(stage, KV_FORMATS[own.kv], own.plan.tp).items()
    if own.engine != "vllm" or spec.family not in STATE_IN_16_BITS:
        return tuple(found)
    return tuple((_narrow(cache, stage, own.plan.tp), count) for cache, count in found)


def _narrow(cache: LayerCache, stage: ModelSpec, tp: int) -> LayerCache:
    """The same state with 16 bits an element."""
    mixers = {mixer for layer in set(stage.layers) for mixer in layer.mixers}
    for mixer in mixers:
        if isinstance(mixer, Attending):
            continue
        state, convolved, kernel = state_elements(mixer)
        taps = convolved * (kernel - 1) * CONVOLUTION_BYTES
        if (state * STATE_BYTES + taps) / tp == cache.state_bytes:
            return replace(cache, state_bytes=(state * CONVOLUTION_BYTES + taps) / tp)
    return cache
