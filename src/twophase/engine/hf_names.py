"""What Hugging Face checkpoints call the tensors of each family, and which of them they hold in one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from twophase.engine.checkpoint import Checkpoint
from twophase.engine.tensors import Shape, Stored
from twophase.errors import InputError
from twophase.model.spec import ModelSpec, NormPlaces

PREFIXES = ("model.", "language_model.model.", "model.language_model.", "language_model.", "transformer.", "")
HEADS = ("lm_head", "language_model.lm_head")
NORMS: dict[NormPlaces, dict[str, str]] = {
    "before": {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"},
    "after": {
        "attention_post_norm": "post_attention_layernorm",
        "mlp_post_norm": "post_feedforward_layernorm",
    },
    "around": {
        "attention_norm": "input_layernorm",
        "attention_post_norm": "post_attention_layernorm",
        "mlp_norm": "pre_feedforward_layernorm",
        "mlp_post_norm": "post_feedforward_layernorm",
    },
    "single": {"attention_norm": "input_layernorm"},
    "none": {},
}
QKV, GATE_UP, MLP = ("q", "k", "v"), ("gate", "up"), ("gate", "up", "down")


LLAMA_OUTER = {"embedding": "embed_tokens", "norm": "norm"}
LLAMA_INNER = {
    **{name: f"self_attn.{name}_proj" for name in ("q", "k", "v", "o")},
    **{name: f"self_attn.{name}" for name in ("q_norm", "k_norm")},
    **{name: f"mlp.{name}_proj" for name in MLP},
    **{f"shared.{name}": f"mlp.shared_expert.{name}_proj" for name in MLP},
    "shared_gate": "mlp.shared_expert_gate",
}


@dataclass(frozen=True, slots=True)
class Names:
    """Modules by our names. Those that share a module lie in it one below another, in this order."""

    outer: Mapping[str, str] = field(default_factory=lambda: LLAMA_OUTER)
    inner: Mapping[str, str] = field(default_factory=lambda: LLAMA_INNER)
    layers: str = "layers"
    turned: bool = False  # matrices of layers are [in, out] (transformers' Conv1D)


@dataclass(frozen=True, slots=True)
class Experts:
    """Where a layer's experts lie: two tensors of all, or one module for each matrix of each."""

    router: str
    gate_up: str
    down: str
    one: str = ""  # the module of one matrix: {n} is the expert's number, {matrix} as `matrices` calls it
    matrices: Mapping[str, str] = field(default_factory=dict)


PHI3_INNER = {
    **LLAMA_INNER,
    **dict.fromkeys(QKV, "self_attn.qkv_proj"),
    **dict.fromkeys(GATE_UP, "mlp.gate_up_proj"),
}
GRANITE_INNER = {
    **LLAMA_INNER,
    **dict.fromkeys(("shared.gate", "shared.up"), "shared_mlp.input_linear"),
    "shared.down": "shared_mlp.output_linear",
}
GPT2_INNER = {
    **dict.fromkeys(QKV, "attn.c_attn"),
    **{"o": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"},
    **{"attention_norm": "ln_1", "mlp_norm": "ln_2"},
}
GPT2_OUTER = {"embedding": "wte", "positions": "wpe", "norm": "ln_f"}
LLAMA = Names()
GPT2 = Names(GPT2_OUTER, GPT2_INNER, "h", turned=True)
FAMILIES = {
    "phi3": Names(inner=PHI3_INNER),
    "starcoder2": Names(inner=LLAMA_INNER | {"up": "mlp.c_fc", "down": "mlp.c_proj"}),
    "granitemoeshared": Names(inner=GRANITE_INNER),
    **{"gpt2": GPT2, "gpt-sw3": GPT2},
}

# Told apart by the router. transformers 5 holds all but Granite's as it holds Qwen's, until it saves them.
EXPERTS = (
    Experts(
        router="mlp.gate",
        gate_up="mlp.experts.gate_up_proj",
        down="mlp.experts.down_proj",
        one="mlp.experts.{n}.{matrix}",
        matrices={name: f"{name}_proj" for name in MLP},
    ),
    Experts(
        router="block_sparse_moe.gate",
        gate_up="block_sparse_moe.experts.gate_up_proj",
        down="block_sparse_moe.experts.down_proj",
        one="block_sparse_moe.experts.{n}.{matrix}",
        matrices={"gate": "w1", "up": "w3", "down": "w2"},
    ),
    Experts(
        router="block_sparse_moe.router.layer",
        gate_up="block_sparse_moe.input_linear.weight",
        down="block_sparse_moe.output_linear.weight",
    ),
    Experts(
        router="block_sparse_moe.router",
        gate_up="block_sparse_moe.experts.gate_up_proj",
        down="block_sparse_moe.experts.down_proj",
    ),
)


def prefix_of(spec: ModelSpec, checkpoint: Checkpoint) -> str:
    """What its names begin with."""
    own = _names(spec).outer["embedding"]
    return next((each for each in PREFIXES if f"{each}{own}.weight" in checkpoint), PREFIXES[0])


def layers_at(spec: ModelSpec, prefix: str) -> str:
    return f"{prefix}{_names(spec).layers}."


def take(
    checkpoint: Checkpoint, spec: ModelSpec, prefix: str, name: str, shapes: Mapping[str, Shape]
) -> Stored:
    """The tensor that we call `name`; `shapes`: of all."""
    matrix = name.removesuffix("_bias")
    kind = "weight" if matrix == name else "bias"
    names = _names(spec)
    if matrix == "head":
        module = next((each for each in HEADS if f"{each}.weight" in checkpoint), HEADS[0])
        return checkpoint.take(f"{module}.{kind}", shapes[name])
    if not matrix.startswith("layers."):
        return checkpoint.take(f"{prefix}{_known(names.outer, matrix, checkpoint)}.{kind}", shapes[name])
    _, i, leaf = matrix.split(".", 2)
    at = f"{prefix}{names.layers}.{i}."
    if leaf == "router" or leaf.startswith("experts."):
        return _take_experts(checkpoint, at, leaf, shapes[name])
    inner = {**NORMS[spec.layers[int(i)].norms], **names.inner}
    module = _known(inner, leaf, checkpoint)
    together = [each for each in inner if inner[each] == module]
    suffix = name.removeprefix(matrix)
    return checkpoint.take_part(
        f"{at}{module}.{kind}",
        [shapes[f"layers.{i}.{each}{suffix}"] for each in together],
        together.index(leaf),
        names.turned,
    )


def _take_experts(checkpoint: Checkpoint, at: str, leaf: str, shape: Shape) -> Stored:
    layout = next((each for each in EXPERTS if f"{at}{each.router}.weight" in checkpoint), EXPERTS[0])
    if leaf == "router":
        return checkpoint.take(f"{at}{layout.router}.weight", shape)
    matrix = leaf.removeprefix("experts.")
    if at + layout.down in checkpoint or not layout.one:
        if matrix == "down":
            return checkpoint.take(at + layout.down, shape)
        return checkpoint.take_part(at + layout.gate_up, [shape, shape], GATE_UP.index(matrix))
    module = layout.matrices[matrix]
    singly = [f"{at}{layout.one.format(n=n, matrix=module)}.weight" for n in range(shape[0])]
    return checkpoint.take_stacked(singly, shape[1:])


def _known(modules: Mapping[str, str], name: str, checkpoint: Checkpoint) -> str:
    if name not in modules:
        raise InputError(
            f"{checkpoint.where}: what a {checkpoint.family} checkpoint calls its {name} is not known here"
        )
    return modules[name]


def _names(spec: ModelSpec) -> Names:
    return FAMILIES.get(spec.family, LLAMA)
