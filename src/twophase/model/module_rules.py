"""Which weights a rule of a quantised checkpoint speaks of.

Checkpoints call the same weight by many names: model.layers.3.mlp, backbone.layers.3.mixer,
language_model.model.layers.3.feed_forward. Rules and weights are brought to one spelling, and then compared.
A rule is a name (which speaks of all inside it), a glob, or a regular expression after "re:".
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from twophase.errors import InputError

Kind = Literal["embedding", "head", "router", "vector", "matrix"]

PREFIXES = re.compile(r"(?:(?:model|language_model|backbone|transformer|gpt_neox|decoder)\.)+")
SPELLINGS = (
    (".block_sparse_moe", ".mlp"),
    (".feed_forward", ".mlp"),
    (".ffn", ".mlp"),
    (".self_attention", ".self_attn"),
    (".attention", ".self_attn"),
    (".attn", ".self_attn"),
    (".mlp.router", ".mlp.gate"),
    (".shared_expert.", ".shared_experts."),
    (".index_q_proj", ".indexer.wq_b"),
    (".index_k_proj", ".indexer.wk"),
)
LEAVES = {
    **{"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj", "wq_a": "q_a_proj", "wq_b": "q_b_proj"},
    **{"wkv": "kv_proj", "wgate": "gate_proj", "wo_a": "o_a_proj", "wo_b": "o_b_proj"},
}
FUSED = {
    "gate_up_proj": ("gate_proj", "up_proj"),
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_b", "in_proj_a"),
}
FUSED_INTO = {each: whole for whole, parts in FUSED.items() for each in parts}
UNFUSED_EXPERTS = re.compile(r"\.experts\.(?=[a-z])")
NOT_DENSE = re.compile(r"mlp\.(?:experts|shared_experts|gate)(?:[.*]|$)")
ONE_BLOCK = re.compile(r"^(layers\.\d+\.)(?:self_attn|mlp)\.")

EMBEDDINGS = ("embed", "wte", "wpe", "word_embeddings", "tok_embeddings")
HEADS = ("lm_head", "head", "output", "embed_out")
ROUTERS = ("gate", "router", "shared_expert_gate", "weights_proj")
VECTORS = ("bias", "conv", "conv1d", "A_log", "D", "dt_bias", "sinks")


def canonical(name: str, dense_beside_experts: bool = False) -> str:
    """The one spelling of a weight's or a rule's name: layers.3.mlp.experts.0.gate_proj.

    dense_beside_experts: layers.N.mlp is a dense block beside the experts (Gemma 4), counted as a shared one.
    """
    if prefix := PREFIXES.match(name):
        name = name[prefix.end() :]
    if name.startswith("h."):
        name = "layers." + name[2:]
    if not name.startswith("layers."):
        return _canonical_inside(name, False, False)
    number, dot, inside = name[len("layers.") :].partition(".")
    if not dot:
        return name
    return f"layers.{number}.{_canonical_inside(inside, dense_beside_experts, True)}"


# Thousands of experts in a hundred layers share a few hundred names.
@lru_cache(maxsize=8192)
def _canonical_inside(name: str, dense_beside_experts: bool, in_layer: bool) -> str:
    """Of what stands behind a layer's number, or where there is none."""
    name = f".{name}."
    for theirs, ours in SPELLINGS:
        if theirs in name:
            name = name.replace(theirs, ours)
    at, _, leaf = name[:-1].rpartition(".")
    name = f"{at}.{LEAVES.get(leaf, leaf)}"[1:]
    if in_layer and name.startswith("experts"):
        return "mlp." + name
    if in_layer and name.startswith("router"):
        return "mlp.gate" + name[len("router") :]
    if dense_beside_experts and name.startswith("mlp") and not NOT_DENSE.match(name):
        return f"mlp.shared_experts{name[len('mlp') :]}"
    return name


def spellings(name: str) -> tuple[str, ...]:
    """A canonical name and what rules may call it otherwise: fused or not, in a layer's one block."""
    found = [name]
    at, _, leaf = name.rpartition(".")
    found += [f"{at}.{each}" for each in FUSED.get(leaf, ())]
    if leaf in FUSED_INTO:
        found.append(f"{at}.{FUSED_INTO[leaf]}")
    if ".experts." in name:
        found += [UNFUSED_EXPERTS.sub(".experts.0.", each) for each in found if UNFUSED_EXPERTS.search(each)]
    return (*found, *(ONE_BLOCK.sub(r"\1mixer.", each) for each in found if ONE_BLOCK.match(each)))


def kind_of(name: str) -> Kind:
    """What a weight is, by its canonical name. Only matrices of the blocks are quantised unasked."""
    at, _, leaf = name.rpartition(".")
    if "norm" in leaf or leaf.startswith("ln_") or leaf.endswith(("_bias", "_conv1d")) or leaf in VECTORS:
        return "vector"
    if leaf.startswith(EMBEDDINGS) and leaf not in HEADS:
        return "embedding"
    if leaf in HEADS and not name.startswith("layers."):
        return "head"
    # DeepSeek V4's compressors are kept in 16 bits, the queries of their indexers are not.
    compressor = ".compressor" in at and leaf in ("kv_proj", "gate_proj")
    return "router" if leaf in ROUTERS or name.endswith(".mlp.gate.proj") or compressor else "matrix"


@dataclass(frozen=True, slots=True)
class Names:
    """The weights that a list of rules speaks of, by canonical names."""

    whole: frozenset[str]  # a weight, or a container, from the layer's number on
    bare: frozenset[str]  # one or more components, wherever they stand: lm_head, self_attn.o_proj
    bare_begin: frozenset[str]  # the first component of each of them
    beginnings: tuple[str, ...]
    globs: tuple[re.Pattern[str], ...]
    expressions: tuple[re.Pattern[str], ...]

    def name(self, module: str) -> bool:
        """Whether one of the rules is this very name."""
        return module in self.whole or module in self.bare

    def cover(self, module: str) -> bool:
        """Whether one of the rules speaks of `module` or of what it is part of."""
        if self.whole and any(begun in self.whole for begun in _beginnings(module)):
            return True
        if self.bare_begin and self._cover_bare(module.split(".")):
            return True
        if self.beginnings and module.startswith(self.beginnings):
            return True
        if any(glob.fullmatch(module) for glob in self.globs):
            return True
        return bool(self.expressions) and any(
            expression.match(spelled) for expression in self.expressions for spelled in _in_full(module)
        )

    def _cover_bare(self, parts: list[str]) -> bool:
        return not self.bare_begin.isdisjoint(parts) and any(
            ".".join(parts[first:end]) in self.bare
            for first, part in enumerate(parts)
            if part in self.bare_begin
            for end in range(first + 1, len(parts) + 1)
        )


def _beginnings(module: str) -> list[str]:
    ends = [at for at, letter in enumerate(module) if letter == "."]
    return [module, *(module[:end] for end in reversed(ends))]


def _in_full(module: str) -> tuple[str, ...]:
    """As a regular expression, written for a checkpoint's own names, may expect it."""
    full = (module, f"model.{module}", f"language_model.model.{module}")
    if ".mlp." not in module:
        return full
    theirs = (f"model.{module.replace('.mlp.', block)}" for block in (".block_sparse_moe.", ".feed_forward."))
    return (*full, *theirs)


def read_names(rules: Iterable[str], where: str, dense_beside_experts: bool = False) -> Names:
    """InputError where a regular expression isn't one."""
    whole: set[str] = set()
    bare: set[str] = set()
    beginnings, globs, expressions = [], [], []
    for rule in rules:
        if rule.startswith("re:"):
            expressions.append(_compiled(rule[3:], where))
            continue
        name = canonical(rule, dense_beside_experts)
        if "*" not in name and "?" not in name:
            (whole if name.startswith("layers.") else bare).add(name)
        elif name.endswith("*") and not any(sign in name[:-1] for sign in "*?"):
            beginnings.append(name[:-1])
        else:
            globs.append(_glob(name))
    bare_begin = frozenset(name.partition(".")[0] for name in bare)
    return Names(
        frozenset(whole), frozenset(bare), bare_begin, tuple(beginnings), tuple(globs), tuple(expressions)
    )


def _compiled(expression: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(expression)
    except re.error as error:
        raise InputError(
            f"{where}: {expression!r} in its quantization_config is no regular expression: {error}"
        ) from None


def _glob(name: str) -> re.Pattern[str]:
    """With a "*." at the front standing for no component too, and all inside what is named covered."""
    begin, rest = (r"(?:.*\.)?", name[2:]) if name.startswith("*.") else ("", name)
    body = re.escape(rest).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(rf"{begin}{body}(?:\..*)?")
