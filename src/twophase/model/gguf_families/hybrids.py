"""Recurrent layers among attention ones: their GGUF keys as config.json's."""

from collections.abc import Sequence

from twophase.errors import InputError
from twophase.model.gguf_families.common import (
    UNROTATED,
    Config,
    common,
    experts,
    layer_count,
    one_of,
    shared_width,
)
from twophase.model.gguf_families.dense import Translate, multipliers
from twophase.model.gguf_keys import Header

KV, LINEAR, FULL = "attention.head_count_kv", "linear_attention", "full_attention"


def qwen3next(header: Header) -> Config:
    shared = {"shared_expert_intermediate_size": shared_width(header)}
    return {**_delta(header), **experts(header), **shared, "model_type": "qwen3_next"}


def qwen35(header: Header) -> Config:
    return {**_delta(header), "model_type": "qwen3_5_text"}


def qwen35moe(header: Header) -> Config:
    return {**qwen3next(header), "model_type": "qwen3_5_moe_text"}


def _delta(header: Header) -> Config:
    """Gated delta rule: group_count key heads of state_size, time_step_rank value heads."""
    layers, every = layer_count(header), header.count("full_attention_interval", 4)
    recurrent = header.flags("attention.recurrent_layers", layers)
    recurrent = recurrent or [(i + 1) % every != 0 for i in range(layers)]
    value_heads, width = _ssm_heads(header)
    return {
        **common(header),
        "layer_types": [LINEAR if each else FULL for each in recurrent],
        "linear_conv_kernel_dim": header.count("ssm.conv_kernel"),
        "linear_key_head_dim": header.count("ssm.state_size"),
        "linear_num_key_heads": header.count("ssm.group_count"),
        "linear_num_value_heads": value_heads,
        "linear_value_head_dim": width,
    }


def _ssm_heads(header: Header) -> tuple[int, int]:
    """(heads of the state, width of each); time_step_rank is how many there are."""
    inner, heads = header.count("ssm.inner_size"), header.count("ssm.time_step_rank")
    if inner % heads:
        raise InputError(
            f"{header.name('ssm.inner_size')} is {inner}, which {heads} heads can't share evenly"
        )
    return heads, inner // heads


def _attending(header: Header) -> tuple[int, list[bool]]:
    """(key-value heads, layer by layer whether it attends): those that don't have none of them."""
    kv_heads = header.each(KV, layer_count(header))
    return one_of(header, KV, kv_heads), [each > 0 for each in kv_heads]


def lfm2(header: Header) -> Config:
    kv_heads, attends = _attending(header)
    return {
        **common(header, kv_heads=kv_heads),
        "model_type": "lfm2",
        "layer_types": [FULL if each else "conv" for each in attends],
        "conv_L_cache": header.count("shortconv.l_cache"),
        "conv_bias": header.stores("shortconv.conv.bias"),
        "block_auto_adjust_ff_dim": False,
    }


def lfm2moe(header: Header) -> Config:
    return {**lfm2(header), **experts(header), "model_type": "lfm2_moe"}


def jamba(header: Header) -> Config:
    kv_heads, attends = _attending(header)
    layers = len(attends)
    inner, d_model = header.count("ssm.inner_size"), header.count("embedding_length")
    sparse = [i in header.blocks.get("ffn_gate_inp.weight", {}) for i in range(layers)]
    return {
        **common(header, kv_heads=kv_heads, rope=UNROTATED),
        **experts(header),
        **_periodic(header, "attn", attends),
        **_periodic(header, "expert", sparse),
        "model_type": "jamba",
        "mamba_expand": _expand(header, inner, d_model),
        "mamba_d_state": header.count("ssm.state_size"),
        "mamba_d_conv": header.count("ssm.conv_kernel"),
        "mamba_dt_rank": header.count("ssm.time_step_rank"),
        "mamba_conv_bias": header.stores("ssm_conv1d.bias"),
        "mamba_proj_bias": False,
    }


def _periodic(header: Header, what: str, layers: Sequence[bool]) -> Config:
    """Which layers, as a period and the first of them. InputError where they follow none."""
    found = [i for i, each in enumerate(layers) if each]
    if not found:
        raise InputError(f"{header.file.path}: no layer has what jamba's {what} layers have")
    period = found[1] - found[0] if len(found) > 1 else len(layers)
    if found != list(range(found[0], len(layers), period)) or found[0] >= period:
        raise InputError(
            f"{header.file.path}: jamba's {what} layers must follow each other at equal distances"
        )
    return {f"{what}_layer_period": period, f"{what}_layer_offset": found[0]}


def _expand(header: Header, inner: int, d_model: int) -> int:
    if inner % d_model:
        raise InputError(f"{header.name('ssm.inner_size')} is {inner}, no multiple of {d_model}")
    return inner // d_model


def _mamba2(header: Header) -> Config:
    heads, width = _ssm_heads(header)
    return {
        "mamba_n_heads": heads,
        "mamba_d_head": width,
        "mamba_d_ssm": heads * width,
        "mamba_n_groups": header.count("ssm.group_count"),
        "mamba_d_state": header.count("ssm.state_size"),
        "mamba_d_conv": header.count("ssm.conv_kernel"),
        "mamba_conv_bias": header.stores("ssm_conv1d.bias"),
        "mamba_proj_bias": False,
    }


def granitehybrid(header: Header) -> Config:
    """Granite 4: a dense MLP, which is the shared expert where there are routed ones."""
    kv_heads, attends = _attending(header)
    config = {**common(header, kv_heads=kv_heads), **multipliers(header), **_mamba2(header)}
    sparse = header.optional("expert_count") is not None
    own = experts(header) if sparse else {"n_routed_experts": 0}
    finetuned = header.file.metadata.get("granitehybrid.rope.scaling.finetuned")
    return {
        **config,
        **own,
        "model_type": "granitemoehybrid",
        "layer_types": [FULL if each else LINEAR for each in attends],
        "mamba_expand": _expand(header, config["mamba_d_ssm"], config["hidden_size"]),
        "intermediate_size": own.get("moe_intermediate_size", config["intermediate_size"]),
        "shared_intermediate_size": shared_width(header) if sparse else config["intermediate_size"],
        "position_embedding_type": "rope" if finetuned else "nope",
    }


def falcon_h1(header: Header) -> Config:
    """Its multipliers are already in the weights."""
    normed = {"mamba_rms_norm": header.stores("ssm_norm.weight")}
    return {**common(header), **_mamba2(header), **normed, "model_type": "falcon_h1"}


def nemotron_h(header: Header) -> Config:
    """Each layer is one block, as its tensors tell: Mamba-2, attention, an MLP, or experts."""
    layers = layer_count(header)
    kinds_of = {LINEAR: "ssm_in", FULL: "attn_q", "moe": "ffn_gate_inp", "mlp": "ffn_up"}
    held = {kind: header.blocks.get(f"{leaf}.weight", {}) for kind, leaf in kinds_of.items()}
    listed = [next((kind for kind, own in held.items() if i in own), None) for i in range(layers)]
    if None in listed:
        raise InputError(f"{header.file.path} has no tensors of layer {listed.index(None)}")
    mamba = _mamba2(header)
    width = max(header.each("feed_forward_length", layers)) or 1
    return {
        **common(header, kv_heads=one_of(header, KV, header.each(KV, layers)), d_ff=width, rope=UNROTATED),
        **({**experts(header), **_nemotron_experts(header)} if "moe" in listed else {}),
        "model_type": "nemotron_h",
        "layers_block_type": listed,
        "mamba_num_heads": mamba["mamba_n_heads"],
        "mamba_head_dim": mamba["mamba_d_head"],
        "n_groups": mamba["mamba_n_groups"],
        "ssm_state_size": mamba["mamba_d_state"],
        "conv_kernel": mamba["mamba_d_conv"],
        "use_conv_bias": mamba["mamba_conv_bias"],
        "use_bias": False,
    }


def _nemotron_experts(header: Header) -> Config:
    latent = header.count("moe_latent_size", header.rows("ffn_latent_down.weight") or 0, least=0)
    return {
        "moe_shared_expert_intermediate_size": shared_width(header),
        "moe_latent_size": latent or None,
    }


TRANSLATORS: dict[str, Translate] = {
    "qwen3next": qwen3next,
    "qwen35": qwen35,
    "qwen35moe": qwen35moe,
    "lfm2": lfm2,
    "lfm2moe": lfm2moe,
    "jamba": jamba,
    "granitehybrid": granitehybrid,
    "falcon-h1": falcon_h1,
    "nemotron_h": nemotron_h,
    "nemotron_h_moe": nemotron_h,
}
