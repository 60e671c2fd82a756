"""Whether a model fits: every term, the three capacities, what would make it fit; text, terminal, JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twophase.fit.capacity import LONGEST
from twophase.fit.fit import Fit
from twophase.fit.reserves import GIB
from twophase.fit.smallest_change import Change
from twophase.fit.weights import Term
from twophase.hardware.accelerator import Accelerator
from twophase.model.cache import kv_bytes_per_token, kv_bytes_per_token_unbounded, state_bytes
from twophase.model.formats import KV_FORMATS
from twophase.model.spec import ModelSpec

if TYPE_CHECKING:
    from rich.console import Console

ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "plain": "no engine"}
SHARES = {
    "vllm": "{share:.2f} of memory",
    "plain": "{share:.2f} of memory",
    "sglang": "{share:.2f} of what is free before loading",
    "trtllm": "of which {share:.2f} of what is free after loading",
}


@dataclass(frozen=True, slots=True)
class FitReport:
    spec: ModelSpec
    accelerator: Accelerator
    fit: Fit
    needs: Sequence[Change]
    contexts: Sequence[int]  # at which the largest batch is asked for

    @property
    def devices(self) -> int:
        return self.fit.serving.plan.devices


def to_json(report: FitReport) -> str:
    """SI units; sizes of one device of the stage that binds unless the name says total_."""
    own, asked, settings = report.fit, report.fit.serving, report.fit.settings
    capacity = own.capacity
    return json.dumps(
        {
            "model": report.spec.name,
            "accelerator": report.accelerator.name,
            "total_devices": report.devices,
            "engine": asked.engine,
            "engine_version": asked.version,
            **dict(asked.plan.sizes),
            "kv": asked.kv,
            "gpu_memory_utilization": settings.utilization,
            "max_model_len": settings.max_model_len,
            "max_num_batched_tokens": settings.max_num_batched_tokens,
            "max_num_seqs": settings.max_num_seqs,
            "fits": own.fits,
            "short_bytes": own.short_bytes,
            "memory_bytes": own.memory_bytes,
            "usable_bytes": own.usable_bytes,
            "weights_bytes": own.weights.bytes,
            "reserve_bytes": own.reserve_bytes,
            "terms": [_term(each) for each in (own.weights, own.activation, own.non_torch)],
            "reserve_source": own.source,
            "kv_pool_bytes": own.kv_pool_bytes,
            "kv_tokens": capacity.logged_tokens,
            "kv_blocks": capacity.blocks,
            "block_tokens": capacity.block_tokens,
            "max_concurrency": capacity.concurrency,
            "capacity": {
                "ideal_tokens": _length(capacity.ideal_tokens),
                "paged_tokens": capacity.paged_tokens,
                "logged_tokens": capacity.logged_tokens,
            },
            "total_kv_tokens": capacity.logged_tokens * asked.plan.dp,
            "total_weights_bytes": own.weights.bytes * report.devices if asked.plan.pp == 1 else None,
            "longest_max_model_len": _length(capacity.longest),
            "sequence_bytes": own.sequence_bytes,
            "sequences_at_max_model_len": own.sequences(settings.max_model_len),
            "largest_batch": {str(context): own.sequences(context) for context in report.contexts},
            "needs": [_change(each) for each in report.needs],
        },
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )


def _term(own: Term) -> dict[str, Any]:
    return {"name": own.name, "bytes": own.bytes, "origin": own.origin, "note": own.note}


def _length(tokens: int) -> int | None:
    return None if tokens >= LONGEST else tokens


def _change(own: Change) -> dict[str, Any]:
    return {
        "flags": own.flags,
        "kv_pool_bytes": own.fit.kv_pool_bytes,
        "kv_tokens": own.fit.capacity.logged_tokens,
        "max_concurrency": own.fit.capacity.concurrency,
        "total_devices": own.fit.serving.plan.devices,
    }


def plain(report: FitReport) -> str:
    return "\n".join(line for line, _ in _lines(report))


def rich(report: FitReport, console: "Console") -> None:
    from rich.text import Text

    for line, style in _lines(report):
        console.print(Text(line, style))


def _lines(report: FitReport) -> Iterator[tuple[str, str]]:
    """(a line, its style on a terminal)."""
    own = report.fit
    yield verdict(report), "bold green" if own.fits else "bold red"
    yield "", ""
    yield from ((line, "") for line in budget(own, report.accelerator))
    yield "", ""
    yield from ((line, "") for line in capacities(report))
    for context in report.contexts:
        yield f"Largest batch at {context:,} tokens: {own.sequences(context):,}", ""
    if not own.fits:
        yield "", ""
        if report.needs:
            yield "It would fit with any one of:", "bold"
        else:
            yield "No single change makes it fit: take a smaller model or larger devices.", "bold"
        width = max((len(each.flags) for each in report.needs), default=0)
        for each in report.needs:
            made = each.fit
            yield (
                f"  {each.flags:<{width}}  KV pool {gib(made.kv_pool_bytes)}, "
                f"{made.capacity.concurrency:.2f} x {made.settings.max_model_len:,} tokens",
                "",
            )
    estimated = [each.name for each in (own.activation, own.non_torch) if each.origin == "estimated"]
    if estimated and own.serving.kv_pool_bytes is None:
        yield "", ""
        yield f"Estimated ({', '.join(estimated)}): {own.source}", "dim"


def verdict(report: FitReport) -> str:
    own, asked = report.fit, report.fit.serving
    version = f" {asked.version}" if asked.version else ""
    how = f"{asked.plan}, {ENGINES[asked.engine]}" if report.devices > 1 else ENGINES[asked.engine]
    on = f"{report.devices} x {report.accelerator.title} ({how}{version})"
    length = f"{own.settings.max_model_len:,} tokens"
    if own.fits:
        return f"{report.spec.name} fits on {on}: {own.capacity.concurrency:.2f} sequences of {length}"
    what = "one sequence of " + length
    if own.older:
        before = f"{ENGINES[asked.engine]} {own.older.serving.version} and before"
        return (
            f"{report.spec.name} is not sure to fit on {on}: with {before} it is "
            f"{gib(own.short_bytes)} short; later ones have room for {length}, as shown"
        )
    if own.kv_pool_bytes <= 0:
        what = "weights and reserve alone leave no KV pool"
    elif own.over_bytes > 0:
        what = "weights and KV pool are more than its memory"
    each = " on each device" if report.devices > 1 else ""
    return f"{report.spec.name} does not fit on {on}: {gib(own.short_bytes)} short{each} ({what})"


def budget(own: Fit, accelerator: Accelerator) -> Iterator[str]:
    """From memory to the pool, a line a term."""
    asked = own.serving
    where = f", stage {own.stage + 1} of {asked.plan.pp} binds" if asked.plan.pp > 1 else ""
    yield row("memory", own.memory_bytes, f"as the driver has it{where}")
    if asked.kv_pool_bytes is None:
        yield row("usable", own.usable_bytes, SHARES[asked.engine].format(share=own.settings.utilization))
    for term in (own.weights, own.activation, own.non_torch):
        inside = asked.engine != "sglang" or term is own.weights or term.origin == "given"
        note = f"{term.origin}: {term.note}" if term.note else term.origin
        yield row(("- " if inside else "  ") + term.name, term.bytes, note)
    rest = own.reserve_bytes - own.activation.bytes - own.non_torch.bytes
    if asked.engine == "trtllm" and asked.kv_pool_bytes is None:
        yield row("- left free", rest, "the engine's own choice")
    yield row("= KV pool", own.kv_pool_bytes, "given" if asked.kv_pool_bytes is not None else "")


def capacities(report: FitReport) -> Iterator[str]:
    own, capacity = report.fit, report.fit.capacity
    element = KV_FORMATS[own.serving.kv]
    per_token = kv_bytes_per_token(report.spec, element)
    growing = kv_bytes_per_token_unbounded(report.spec, element)
    state = state_bytes(report.spec)
    beyond = f", {growing:,.0f} beyond the windows" if growing < per_token else ""
    kept = f", and {state / 2**20:,.1f} MiB of state a sequence" if state else ""
    yield f"KV cache in {own.serving.kv}, of all layers: {per_token:,.0f} bytes a token{beyond}{kept}"
    yield (f"{capacity.blocks:,} blocks of {capacity.block_tokens:,} tokens on each device")
    ideal = "no limit" if capacity.ideal_tokens >= LONGEST else f"{capacity.ideal_tokens:,}"
    yield f"  ideal   {ideal:>13} tokens of one sequence, charged what it keeps"
    length = f"{own.settings.max_model_len:,}"
    yield f"  paged   {capacity.paged_tokens:>13,} tokens in blocks, of sequences of {length}"
    yield f"  logged  {capacity.logged_tokens:>13,} tokens in the engine's own line"
    longest = "any length" if capacity.longest >= LONGEST else f"{capacity.longest:,} tokens"
    yield (
        f"Sequences of {length} tokens: {own.sequences(own.settings.max_model_len):,} "
        f"at once; the longest that one can be: {longest}"
    )
    if own.serving.plan.dp > 1:
        yield f"Each of the {own.serving.plan.dp} replicas has as much."


def row(name: str, bytes_: float, note: str) -> str:
    return f"  {name:<16} {bytes_ / GIB:>9.2f} GiB  {note}".rstrip()


def gib(bytes_: float) -> str:
    return f"{bytes_ / GIB:.2f} GiB"
