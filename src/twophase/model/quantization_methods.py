"""What each method of quantisation writes into `quantization_config`, read into rules.

Sources: transformers.utils.quantization_config, compressed-tensors' QuantizationConfig, NVIDIA ModelOpt's
hf_quant_config, and the configs of published checkpoints.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twophase.errors import InputError, nearest
from twophase.model.formats import FORMATS, Format, integer_format
from twophase.model.quantization_values import bits_of, block_of, group_of, names_of, switch, whole

Config = Mapping[str, Any]

EXCLUDED = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude")
SKIPPED = ("llm_int8_skip_modules", "skip_modules", *EXCLUDED)

# The names of NVIDIA ModelOpt and TensorRT-LLM.
ALGORITHMS = {
    **{"FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8-channel", "FP8_PB_WO": "fp8-block"},
    **{"FP8_PB_REAL": "fp8-block", "FP8_BLOCK_SCALES": "fp8-block", "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4"},
    **{"W4A16_NVFP4": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4", "MXFP8": "mxfp8", "MXFP4": "mxfp4"},
    **{"W4A8_MXFP4_FP8": "mxfp4", "W4A16_MXFP4": "mxfp4", "W4A16_AWQ": "awq", "INT4_AWQ": "awq"},
    **{"W8A16": "int8-weight-only", "W8A8_SQ_PER_CHANNEL": "int8", "INT8_SQ": "int8"},
}
MIXED = "MIXED_PRECISION"


@dataclass(frozen=True, slots=True)
class Rule:
    """`format` for the weights that `names` speak of (see module_rules); None: they are not quantised."""

    names: tuple[str, ...]
    format: Format | None


@dataclass(frozen=True, slots=True)
class Rules:
    """The first rule that speaks of a weight holds; `linear` is for the rest of the blocks' matrices."""

    linear: Format | None
    rules: tuple[Rule, ...] = ()


def _kept(own: Config, keys: Iterable[str] = SKIPPED) -> tuple[Rule, ...]:
    names = tuple(name for key in keys for name in names_of(own, key))
    return (Rule(names, None),) if names else ()


def _fp8(own: Config, where: str) -> Rules:
    """DeepSeek's and Qwen's; with ModelOpt's `quantized_layers` where the experts were made smaller since."""
    rules = (*_kept(own, ("modules_to_not_convert", "ignored_layers")), *_layers(own, where))
    block = block_of(own, "weight_block_size")
    return Rules(replace(FORMATS["fp8-block"], block=block) if block else FORMATS["fp8"], rules)


def _fbgemm(own: Config, where: str) -> Rules:
    return Rules(FORMATS["fp8-channel"], _kept(own))


def _mxfp4(own: Config, where: str) -> Rules:
    """gpt-oss: the experts alone."""
    return Rules(None, (*_kept(own), Rule(("experts",), FORMATS["mxfp4"])))


def _mxfp8(own: Config, where: str) -> Rules:
    return Rules(FORMATS["mxfp8"], _kept(own))


def _integers(own: Config, name: str, asymmetric: bool) -> Format:
    bits = bits_of(own, "bits", bits_of(own, "w_bit"))
    group = group_of(own, "group_size", group_of(own, "q_group_size", 128))
    made = integer_format(bits, group, asymmetric=asymmetric, name=f"{name}-int")
    return FORMATS[name] if made.bits_per_weight == FORMATS[name].bits_per_weight else made


def _gptq(own: Config, where: str) -> Rules:
    """Zero points are stored even where `sym` makes them alike. `dynamic`: GPTQModel's, by expressions."""
    rules = list(_kept(own))
    for expression, other in (own.get("dynamic") or {}).items():
        name = "re:" + expression.removeprefix("-:").removeprefix("+:")
        kept = expression.startswith("-:")
        rules.append(Rule((name,), None if kept else _integers({**own, **other}, "gptq", True)))
    return Rules(_integers(own, "gptq", True), tuple(rules))


def _awq(own: Config, where: str) -> Rules:
    return Rules(_integers(own, "awq", switch(own, "zero_point", True)), _kept(own))


def _auto_round(own: Config, where: str) -> Rules:
    rules = list(_kept(own))
    for name, other in (own.get("extra_config") or {}).items():
        merged = {**own, **other}
        kept = whole(merged, "bits", 4, 1, 32) >= 16
        rules.append(Rule((name,), None if kept else _integers(merged, "gptq", True)))
    return Rules(_integers(own, "gptq", True), tuple(rules))


def _bitsandbytes(own: Config, where: str) -> Rules:
    if switch(own, "load_in_8bit", False):
        return Rules(FORMATS["bnb-int8"], _kept(own))
    name = "bnb-nf4-double" if switch(own, "bnb_4bit_use_double_quant", False) else "bnb-nf4"
    return Rules(FORMATS[name], _kept(own))


def _hqq(own: Config, where: str) -> Rules:
    weights = (own.get("quant_config") or {}).get("weight_quant_params") or own
    made = integer_format(bits_of(weights, "nbits"), group_of(weights), asymmetric=True)
    return Rules(replace(made, zero_bits=16), _kept(own))  # its zero points are 16-bit floats


def _torchao(own: Config, where: str) -> Rules:
    kind, settings = own.get("quant_type"), own.get("quant_type_kwargs") or {}
    if isinstance(kind, Mapping):
        default = kind.get("default") or {}
        kind, settings = default.get("_type"), default.get("_data") or {}
    called = str(kind).lower().replace("_", "").removesuffix("config")
    by_row = "perrow" in str(settings.get("granularity")).lower()
    formats = {
        "int4weightonly": integer_format(4, group_of(settings, otherwise=128), asymmetric=True),
        "int8weightonly": FORMATS["int8-weight-only"],
        "int8dynamicactivationint8weight": FORMATS["int8"],
        "int8dynamicactivationint4weight": integer_format(
            4, group_of(settings, otherwise=32), arithmetic="int8"
        ),
        "float8weightonly": FORMATS["fp8"],
        "float8dynamicactivationfloat8weight": FORMATS["fp8-channel" if by_row else "fp8"],
    }
    if called not in formats:
        raise InputError(
            f"{where}: torchao's quant_type {kind!r} is not known; known are {', '.join(formats)}"
        )
    return Rules(formats[called], _kept(own))


def _quark(own: Config, where: str) -> Rules:
    """AMD's: layer_quant_config by glob over global_quant_config."""

    def weights(part: Config) -> Format | None:
        settings = part.get("weight")
        if not settings:
            return None
        kind, scheme = str(settings.get("dtype", "")), str(settings.get("qscheme") or "")
        bits = int("".join(filter(str.isdigit, kind.partition("_")[0])) or 0)
        inputs = (part.get("input_tensors") or {}).get("dtype")
        return format_of_weights(
            {
                "num_bits": bits,
                "type": "int" if "int" in kind else "float",
                "strategy": scheme.removeprefix("per_"),
                "group_size": settings.get("group_size"),
                "symmetric": settings.get("symmetric"),
            },
            {"num_bits": 8, "type": "int" if "int" in str(inputs) else "float"} if inputs else None,
            where,
        )

    layers = [Rule((name,), weights(part)) for name, part in (own.get("layer_quant_config") or {}).items()]
    return Rules(weights(own.get("global_quant_config") or {}), (*_kept(own), *layers))


def format_of_weights(weights: Config, activations: Config | None, where: str) -> Format:
    """Compressed-tensors' QuantizationArgs as a format."""
    bits, kind = whole(weights, "num_bits", 8), str(weights.get("type", "int"))
    strategy, group = str(weights.get("strategy") or ""), group_of(weights)
    if kind == "float" and bits == 4 and group in (0, 16, 32):
        return FORMATS["mxfp4" if group == 32 else "nvfp4"]
    if kind == "float" and bits == 8:
        if strategy == "block" or weights.get("block_structure"):
            return replace(FORMATS["fp8-block"], block=block_of(weights, "block_structure") or (128, 128))
        return FORMATS["mxfp8" if group == 32 else "fp8-channel" if strategy == "channel" else "fp8"]
    if kind == "int" and 2 <= bits <= 8:
        arithmetic = "bf16"
        if activations and whole(activations, "num_bits", 16) <= 8:
            arithmetic = "fp8" if activations.get("type") == "float" else "int8"
        if bits == 8 and not group and arithmetic != "fp8":
            return FORMATS["int8" if arithmetic == "int8" else "int8-weight-only"]
        asymmetric = not switch(weights, "symmetric", True)
        return integer_format(bits, group, asymmetric=asymmetric, arithmetic=arithmetic)
    raise InputError(f"{where}: weights of {bits} bits, type {kind!r}, in groups of {group} are not known")


def _compressed_tensors(own: Config, where: str) -> Rules:
    linear, rules = None, list(_kept(own))
    for group in (own.get("config_groups") or {}).values():
        weights = group.get("weights")
        made = format_of_weights(weights, group.get("input_activations"), where) if weights else None
        targets = names_of(group, "targets") or ("Linear",)
        names = tuple(target for target in targets if not target.endswith("Linear"))
        if len(names) < len(targets):
            linear = made
        if names:
            rules.append(Rule(names, made))
    return Rules(linear, tuple(rules))


def _algorithm(called: str, group: int, where: str) -> Format:
    if called == "W4A8_AWQ":
        return integer_format(4, group or 128, arithmetic="fp8")
    name = ALGORITHMS.get(called.upper())
    if name is None:
        hint = nearest(called, ALGORITHMS) or f"; known are {', '.join(ALGORITHMS)}, {MIXED}"
        raise InputError(f"{where}: the quant_algo {called!r} is not known{hint}")
    return integer_format(4, group, name="awq-int") if name == "awq" and group else FORMATS[name]


def _layers(own: Config, where: str) -> tuple[Rule, ...]:
    """`quantized_layers`: each weight or container by name."""
    by_format: dict[tuple[str, int], list[str]] = {}
    for name, layer in (own.get("quantized_layers") or {}).items():
        key = str(layer.get("quant_algo")), group_of(layer)
        by_format.setdefault(key, []).append(name)
    return tuple(Rule(tuple(names), _algorithm(*key, where)) for key, names in by_format.items())


def _modelopt(own: Config, where: str) -> Rules:
    algorithm = own.get("quant_algo")
    if not algorithm:
        return _compressed_tensors(own, where)
    if algorithm != MIXED:
        return Rules(_algorithm(str(algorithm), group_of(own), where), _kept(own))
    layers = _layers(own, where)
    return Rules(None, (*_kept(own), *layers)) if layers else _compressed_tensors(own, where)


METHODS: dict[str, Callable[[Config, str], Rules]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "mxfp4": _mxfp4,
    "mxfp8": _mxfp8,
    "gptq": _gptq,
    "awq": _awq,
    "auto-round": _auto_round,
    "bitsandbytes": _bitsandbytes,
    "hqq": _hqq,
    "torchao": _torchao,
    "quark": _quark,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
}
