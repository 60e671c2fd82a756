"""The engines that are known, recognised by the names on their pages and by nothing else."""

from collections.abc import Collection
from dataclasses import replace

from twophase.counters.engines.dynamo import DYNAMO
from twophase.counters.engines.llamacpp import LLAMACPP
from twophase.counters.engines.lmdeploy import LMDEPLOY
from twophase.counters.engines.own import OWN
from twophase.counters.engines.sglang import SGLANG
from twophase.counters.engines.table import Engine
from twophase.counters.engines.tgi import TGI
from twophase.counters.engines.trtllm import TRTLLM
from twophase.counters.engines.vllm import VLLM

ENGINES = (OWN, VLLM, SGLANG, TGI, TRTLLM, LLAMACPP, LMDEPLOY, DYNAMO)
FEWEST = 3  # names without any prefix: fewer may be a coincidence


def recognised(names: Collection[str]) -> list[Engine]:
    """Engines whose names stand on a page, each with its prefix there; first the one with most of them.

    Of two that share a prefix the first alone: our own page has all of vLLM's names.
    """
    there = set(names)
    found = []
    for engine in ENGINES:
        prefixes = list(engine.prefixes)
        if engine.mark:
            prefixes += [each.removesuffix(engine.mark) for each in there if each.endswith(engine.mark)]
        own = names_of(engine)
        best = max(
            ((sum(f"{prefix}{name}" in there for name in own), prefix) for prefix in dict.fromkeys(prefixes)),
            default=(0, ""),
        )
        if best[0] >= (1 if best[1] else FEWEST):
            found.append((best[0], replace(engine, prefixes=(best[1],))))
    ranked: dict[str, Engine] = {}
    for _, engine in sorted(found, key=lambda each: -each[0]):
        ranked.setdefault(engine.prefixes[0], engine)
    return list(ranked.values())


def tells_tokens(engine: Engine, names: Collection[str]) -> bool:
    """A router has an engine's gauges at most. (An engine that has served nothing may lack counters, too.)"""
    return any(
        f"{engine.prefixes[0]}{each.name}" in names
        for quantity in ("prompt", "computed", "generated")
        for choice in engine.counters.get(quantity, ())
        for each in choice
    )


def names_of(engine: Engine) -> set[str]:
    """Of its samples, without the prefix."""
    counters = {each.name for choices in engine.counters.values() for choice in choices for each in choice}
    histograms = {f"{each.name}_count" for names in engine.histograms.values() for each in names}
    gauges = {each.name for names in engine.gauges.values() for each in names}
    return counters | histograms | gauges


__all__ = ["ENGINES", "Engine", "recognised"]
