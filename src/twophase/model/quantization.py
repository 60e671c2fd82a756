"""In which format each weight of a checkpoint is stored, from its config.json or by choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twophase.errors import InputError, nearest
from twophase.model.formats import FORMATS, GGUF, Format, format_named

if TYPE_CHECKING:  # how rules are read is imported by checkpoints that have some
    from twophase.model.module_rules import Kind, Names
    from twophase.model.quantization_methods import Rules

Config = Mapping[str, Any]

DTYPES = {
    **{"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "float32", "float": "float32"},
    "auto": "bf16",
}
UNQUANTISED = ("float32", "bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage of a whole network's weights."""

    name: str  # nvfp4, fp8-block, bf16; nvfp4+mxfp8 where a checkpoint has several
    default: Format  # of what is not quantised: norms, biases, and what the config leaves out
    linear: Format  # of the blocks' matrices, where no rule says otherwise
    rules: "tuple[tuple[Names, Format], ...]" = ()
    kv: str | None = None  # the format that the checkpoint has scales for, as in KV_FORMATS
    quantised: "frozenset[Kind]" = frozenset({"matrix"})  # the kinds of weights that `linear` is for
    dense_beside_experts: bool = False

    def format_of(self, module: str) -> Format:
        """Of a weight by its path in a checkpoint without ".weight": model.layers.3.mlp.experts.0.down_proj.

        Any of the names that checkpoints use. Embeddings, head and routers are quantised only where a rule
        has their very name; vectors never.
        """
        if self.linear == self.default and not self.rules:
            return self.default
        from twophase.model.module_rules import canonical, kind_of, spellings

        name = canonical(module, self.dense_beside_experts)
        kind = kind_of(name)
        if kind == "vector":
            return self.default
        for spelled in spellings(name) if self.rules else ():
            for names, format in self.rules:
                if names.name(spelled) or (kind == "matrix" and names.cover(spelled)):
                    return format
        return self.linear if kind in self.quantised else self.default


def uniform(name: str) -> Storage:
    """Every matrix in one format; embedding, head and router too where it is GGUF's or not quantised at all.

    InputError where no format is called so.
    """
    format = format_named(name)
    if format.name in UNQUANTISED:
        return Storage(format.name, format, format)
    if format.name in GGUF:
        every: frozenset[Kind] = frozenset({"matrix", "embedding", "head"})
        return Storage(format.name, FORMATS["float32"], format, quantised=every)
    return Storage(format.name, FORMATS["bf16"], format)


def read_storage(config: Config, where: str) -> Storage:
    """From a whole config.json. `where` names it in an error.

    InputError where its quantization_config is of a method that is not known, or can't be understood.
    """
    text = config.get("text_config")
    inner: Config = text if isinstance(text, Mapping) else {}
    default = _default(config, inner, where)
    own = _own(config, inner, where)
    if own is None:
        return Storage(default.name, default, default)
    from twophase.model.module_rules import read_names
    from twophase.model.quantization_methods import Rule, Rules

    try:
        read = _method(own, where)(own, where)
        kv = _kv(own, where)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{where}: its quantization_config can't be understood: {error}") from None
    small_experts = (config.get("expert_dtype") or inner.get("expert_dtype")) == "fp4"
    if small_experts and not own.get("quantized_layers"):  # DeepSeek V4's, beside fp8
        read = Rules(read.linear, (*read.rules, Rule(("experts",), FORMATS["mxfp4"])))
    dense = bool(config.get("enable_moe_block") or inner.get("enable_moe_block"))  # Gemma 4
    rules = tuple((read_names(rule.names, where, dense), rule.format or default) for rule in read.rules)
    return Storage(
        _name(read) or default.name, default, read.linear or default, rules, kv, dense_beside_experts=dense
    )


def _default(config: Config, inner: Config, where: str) -> Format:
    """The type of what is not quantised; 16 bits where none is given, as engines serve them."""
    given = next(
        (part[key] for part in (inner, config) for key in ("dtype", "torch_dtype") if part.get(key)), "auto"
    )
    called = str(given).removeprefix("torch.")
    if called.startswith("float8"):
        return FORMATS["bf16"]
    if called not in DTYPES:
        raise InputError(f"{where}: the dtype {given!r} is not known{nearest(called, DTYPES)}")
    return FORMATS[DTYPES[called]]


def _own(config: Config, inner: Config, where: str) -> Config | None:
    """quantization_config, also as ModelOpt's hf_quant_config.json wraps it."""
    keys = ("quantization_config", "compression_config")
    own = next((part[key] for part in (config, inner) for key in keys if part.get(key)), None)
    if own is None:
        return None
    if not isinstance(own, Mapping):
        raise InputError(f"{where}: its quantization_config is {type(own).__name__}, not an object")
    nested = own.get("quantization")
    return nested if isinstance(nested, Mapping) else own


def _method(own: Config, where: str) -> Any:
    from twophase.model.quantization_methods import METHODS

    called = own.get("quant_method") or ("modelopt" if "quant_algo" in own else None)
    called = str(called).lower().replace("compressed_tensors", "compressed-tensors")
    if called not in METHODS:
        raise InputError(f"{where}: the quant_method {called!r} is not known; known are {', '.join(METHODS)}")
    return METHODS[called]


def _kv(own: Config, where: str) -> str | None:
    scheme = own.get("kv_cache_scheme") or own.get("kv_cache_quant_algo")
    if not scheme:
        return None
    if isinstance(scheme, Mapping):
        kind = "fp" if scheme.get("type", "float") == "float" else "int"
        scheme = f"{kind}{scheme.get('num_bits', 8)}"
    called = {"fp4": "nvfp4"}.get(str(scheme).lower(), str(scheme).lower())
    if called not in ("fp8", "int8", "int4", "nvfp4"):
        raise InputError(
            f"{where}: the KV cache's format {scheme!r} is not known; known are fp8, int8, int4, nvfp4"
        )
    return called


def _name(read: "Rules") -> str:
    """Of the formats, those with the most names first."""
    made = sorted((rule for rule in read.rules if rule.format), key=lambda rule: -len(rule.names))
    formats = [rule.format.name for rule in made if rule.format]
    if read.linear:
        formats.append(read.linear.name)
    return "+".join(dict.fromkeys(formats))
