"""What a model is made of and what it takes: the terminal's text, and JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from twophase.model.cache import (
    caches,
    kv_bytes,
    kv_bytes_per_token,
    kv_bytes_per_token_unbounded,
    state_bytes,
)
from twophase.model.catalogue import Model
from twophase.model.counts import Parameters, matmul_parameters, parameters
from twophase.model.stored import Stored, outer_stored, stored_bytes_of, stored_layers
from twophase.report.layers import pattern

PARTS = ("embedding", "attention", "recurrent", "mlp", "experts", "norms", "head")
SAID = {
    "embedding": "embedding",
    "attention": "attention",
    "recurrent": "recurrent mixers",
    "mlp": "MLP, shared experts, routers",
    "experts": "routed experts",
    "norms": "norms",
    "head": "head",
}


@dataclass(frozen=True, slots=True)
class ModelReport:
    model: Model  # in the formats of its checkpoint, or as asked for
    kv_format: str
    kv_element_bytes: float
    contexts: Sequence[int]


def to_json(report: ModelReport) -> str:
    """Integers are counts of parameters of the text model; bytes are of all layers and one sequence."""
    spec, kv = report.model.spec, report.kv_element_bytes
    counted, stored = parameters(spec), part_bytes(report)
    vision = report.model.vision
    return json.dumps(
        {
            "model": spec.name,
            "family": spec.family,
            "layers": len(spec.layers),
            "d_model": spec.d_model,
            "vocab_size": spec.vocab_size,
            "context_length": spec.context_length,
            "tied_embeddings": spec.tied_embeddings,
            "draft_layers": spec.draft_layers,
            "layer_pattern": pattern(spec.layers),
            "parameters": {**asdict(counted), "vision": vision.parameters if vision else 0},
            "vision": vision.name if vision else None,
            "matmul_parameters": matmul_parameters(spec),
            "weights": report.model.storage.name,
            "weights_bytes": whole(sum(stored.values())),
            "weights_bytes_by_part": {part: whole(size) for part, size in stored.items()},
            "kv": report.kv_format,
            "kv_bytes_per_token": whole(kv_bytes_per_token(spec, kv)),
            "kv_bytes_per_token_unbounded": whole(kv_bytes_per_token_unbounded(spec, kv)),
            "kv_bytes_at": {str(each): whole(kv_bytes(spec, each, kv)) for each in report.contexts},
            "state_bytes": whole(state_bytes(spec)),
        },
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )


def whole(bytes_: float) -> float:
    """Without the point of a float where there is nothing behind it: some formats have bits left over."""
    return int(bytes_) if bytes_ == int(bytes_) else bytes_


def part_bytes(report: ModelReport) -> dict[str, float]:
    """Stored bytes by part; the head is nothing where it is the embedding's own table."""
    spec, found = report.model.spec, dict.fromkeys(PARTS, 0.0)
    every: list[Stored] = [each for layer in stored_layers(spec, report.model.storage) for each in layer]
    every += outer_stored(spec, report.model.storage)
    for each in every:
        if not (spec.tied_embeddings and each.weight.name == "lm_head"):
            found[each.weight.part] += stored_bytes_of(each)
    return found


def plain(report: ModelReport) -> str:
    spec = report.model.spec
    counted = parameters(spec)
    return "\n".join(
        [
            f"{spec.name} ({spec.family}): {len(spec.layers)} layers, d_model {spec.d_model:,}, "
            f"vocabulary {spec.vocab_size:,}, context {spec.context_length:,} tokens",
            *(f"  {line}" for line in pattern(spec.layers)),
            "",
            *_parameter_lines(report, counted),
            "",
            *_cache_lines(report),
            *_notes(report),
        ]
    )


def _parameter_lines(report: ModelReport, counted: Parameters) -> list[str]:
    stored = part_bytes(report)
    rows = [(SAID[part], getattr(counted, part), stored[part]) for part in PARTS if getattr(counted, part)]
    width = max(18, len(report.model.storage.name) + 5)
    lines = [f"{'':30}{'parameters':>22}{'in ' + report.model.storage.name.upper():>{width}}"]
    tied = report.model.spec.tied_embeddings
    for name, count, bytes_ in rows:
        same = "tied" if name == "head" and tied and not bytes_ else gigabytes(bytes_)
        lines.append(f"{name:30}{count:>22,}{same:>{width}}")
    lines.append(f"{'total':30}{counted.total:>22,}{gigabytes(sum(stored.values())):>{width}}")
    if counted.active != counted.total:
        lines.append(f"{'active, of one token':30}{counted.active:>22,}")
    if counted.active_without_embedding != counted.active:
        lines.append(f"{'  without the embedding':30}{counted.active_without_embedding:>22,}")
    spec = report.model.spec
    lines.append(f"{'matmul weights, of one token':30}{matmul_parameters(spec):>22,}")
    return lines


def _cache_lines(report: ModelReport) -> list[str]:
    spec, kv = report.model.spec, report.kv_element_bytes
    each, growing, state = (
        kv_bytes_per_token(spec, kv),
        kv_bytes_per_token_unbounded(spec, kv),
        state_bytes(spec),
    )
    lines = [f"KV cache in {report.kv_format.upper()}: {each:,.0f} bytes a token ({each / 1024:,.4g} KiB)"]
    index = sum(
        one.entry_bytes / one.stride * n for one, n in caches(spec, kv).items() if one.kind == "index"
    )
    if index:
        lines[0] += f", {index:,.0f} of them the indexer's keys in FP8"
    if growing != each:
        lines[0] += f", {growing:,.0f} where the windows are full"
    if state:
        lines.append(f"State, whatever the length: {state:,.0f} bytes a sequence ({gibibytes(state)})")
    lines += [
        f"  at {context:>11,} tokens {gibibytes(kv_bytes(spec, context, kv)):>12} a sequence"
        for context in report.contexts
    ]
    return lines


def _notes(report: ModelReport) -> list[str]:
    spec, vision = report.model.spec, report.model.vision
    notes = []
    if vision:
        said = "not counted here" if vision.parameters is None else f"{vision.parameters:,} parameters more"
        notes.append(f"Vision: {vision.name}, {said}.")
    if spec.draft_layers:
        many = "a draft layer" if spec.draft_layers == 1 else f"{spec.draft_layers} draft layers"
        notes.append(f"Published with {many} (multi-token prediction), not counted here.")
    return ["", *notes] if notes else []


def gigabytes(value: float) -> str:
    return f"{value / 1e9:,.3f} GB" if value >= 1e6 else f"{value / 1e3:,.3f} kB"


def gibibytes(value: float) -> str:
    return f"{value / 2**30:,.3f} GiB" if value >= 2**30 / 100 else f"{value / 2**20:,.3f} MiB"
