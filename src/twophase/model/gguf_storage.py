"""In which format each weight of a GGUF file is stored, as its header says tensor by tensor."""

from collections import Counter

from twophase.errors import InputError
from twophase.model.formats import FORMATS, Format
from twophase.model.gguf_file import GGUFFile
from twophase.model.gguf_keys import BLOCK
from twophase.model.gguf_parts import whole
from twophase.model.gguf_types import format_of
from twophase.model.module_rules import read_names
from twophase.model.quantization import Storage

# The weights that a layer's matrix may hold, by llama.cpp's name for it; which of them, the network says.
NAMES: dict[str, tuple[str, ...]] = {
    "attn_q": ("self_attn.q_proj", "self_attn.g_proj"),
    "attn_k": ("self_attn.k_proj",),
    "attn_v": ("self_attn.v_proj",),
    "attn_qkv": (
        *("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        *("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz"),
    ),
    "attn_gate": ("linear_attn.in_proj_z",),
    "attn_output": ("self_attn.o_proj",),
    "attn_q_a": ("self_attn.q_a_proj",),
    "attn_q_b": ("self_attn.q_b_proj",),
    "attn_kv_a_mqa": ("self_attn.kv_a_proj_with_mqa",),
    "attn_kv_b": ("self_attn.kv_b_proj",),
    "attn_k_b": ("self_attn.kv_b_proj",),  # newer files hold its two halves apart, in one type
    "indexer.attn_q_b": ("self_attn.indexer.wq_b",),
    "indexer.attn_k": ("self_attn.indexer.wk",),
    "indexer.proj": ("self_attn.indexer.weights_proj",),
    "ffn_gate": ("mlp.gate_proj", "mlp.shared_experts.gate_proj"),
    "ffn_up": ("mlp.up_proj", "mlp.shared_experts.up_proj"),
    "ffn_down": ("mlp.down_proj", "mlp.shared_experts.down_proj"),
    "ffn_gate_inp": ("mlp.gate",),
    "ffn_gate_exps": ("mlp.experts.0.gate_proj",),
    "ffn_up_exps": ("mlp.experts.0.up_proj",),
    "ffn_gate_up_exps": ("mlp.experts.0.gate_proj", "mlp.experts.0.up_proj"),
    "ffn_down_exps": ("mlp.experts.0.down_proj",),
    "ffn_gate_shexp": ("mlp.shared_experts.gate_proj",),
    "ffn_up_shexp": ("mlp.shared_experts.up_proj",),
    "ffn_down_shexp": ("mlp.shared_experts.down_proj",),
    "ffn_gate_inp_shexp": ("mlp.shared_expert_gate",),
    "ffn_latent_down": ("mlp.fc1_latent_proj",),
    "ffn_latent_up": ("mlp.fc2_latent_proj",),
    "ssm_in": ("mixer.in_proj", "mamba.in_proj", "linear_attn.in_proj_qkvz"),
    "ssm_x": ("mamba.x_proj",),
    "ssm_dt": ("mamba.dt_proj",),
    "ssm_ba": ("linear_attn.in_proj_ba", "linear_attn.in_proj_b", "linear_attn.in_proj_a"),
    "ssm_beta": ("linear_attn.in_proj_b",),
    "ssm_alpha": ("linear_attn.in_proj_a",),
    "ssm_out": ("mixer.out_proj", "mamba.out_proj", "linear_attn.out_proj"),
    "shortconv.in_proj": ("conv.in_proj",),
    "shortconv.out_proj": ("conv.out_proj",),
    "inp_gate": ("per_layer_input_gate",),
    "proj": ("per_layer_projection",),
    "laurel_l": ("laurel.linear_left",),
    "laurel_r": ("laurel.linear_right",),
    "altup_correct_coef": ("altup.correction_coefs",),
    "altup_predict_coef": ("altup.prediction_coefs",),
    "altup_router": ("altup.modality_router",),
}
OUTER = {
    "token_embd": "embed_tokens",
    "output": "lm_head",
    "position_embd": "embed_positions",
    "per_layer_token_embd": "embed_tokens_per_layer",
    "per_layer_model_proj": "per_layer_model_projection",
    "altup_proj": "altup_projections",
    "altup_unembd_proj": "altup_unembed_projections",
}


def gguf_storage(file: GGUFFile) -> Storage:
    """The most frequent type of the layers' matrices, and a rule for each of them and for those outside."""
    formats: dict[str, Format] = {}
    for name, place in whole(file).tensors.items():
        stem = name.removesuffix(".weight")
        if stem == name:
            continue
        if found := BLOCK.fullmatch(stem):
            layer, names = found[1], NAMES.get(found[2], ())
            ours = [f"layers.{layer}.{each}" for each in names]
        else:
            ours = [OUTER[stem]] if stem in OUTER else []
        if ours:
            formats |= dict.fromkeys(ours, format_of(str(file.path), name, place))
    for name, format in tuple(formats.items()):
        if name.endswith("up_proj"):  # where gate and up are one matrix, it is called ffn_up
            formats.setdefault(f"{name.removesuffix('up_proj')}gate_proj", format)
    counted = Counter(format for name, format in formats.items() if name.startswith("layers."))
    if not counted:
        raise InputError(f"{file.path} holds no layer's matrices")
    ((usual, _),) = counted.most_common(1)
    named: dict[Format, list[str]] = {}
    for name, format in formats.items():
        named.setdefault(format, []).append(name)
    rules = tuple((read_names(names, str(file.path)), format) for format, names in named.items())
    return Storage(usual.name, FORMATS["float32"], usual, rules)
