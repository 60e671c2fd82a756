"""The smallest changes that make a model fit; each is tried, none is promised."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from twophase.errors import InputError
from twophase.fit.capacity import longest
from twophase.fit.fit import OLDER, Fit, fit
from twophase.fit.reserves import newer_than
from twophase.fit.serving import Serving
from twophase.hardware.accelerator import Accelerator
from twophase.model.catalogue import Model
from twophase.model.formats import KV_FORMATS
from twophase.model.quantization import uniform
from twophase.model.stored import weights_bytes

FEWER_BITS = ("fp8", "int4")  # formats to try, where they take a tenth off all weights at least
HIGHEST_UTILIZATION = 0.98
MOST_STAGES = 16


@dataclass(frozen=True, slots=True)
class Change:
    """Options to add to the command, and the fit that they make."""

    flags: str
    fit: Fit


def smallest_changes(model: Model, accelerator: Accelerator, serving: Serving, found: Fit) -> list[Change]:
    """One of each kind, the cheapest first; two at once where none alone is enough; [] where nothing is."""
    alone = _alone(model, accelerator, serving, found)
    if serving.version is None and serving.engine in OLDER:
        alone = _with_newest(model, accelerator, serving, alone)
    more_devices = any("--tp" in each.flags or "--pp" in each.flags for each in alone)
    if alone:
        return alone if more_devices else [*alone, *_nodes(model, accelerator, serving)]
    return [*_fewer_bits_and_wider(model, accelerator, serving), *_nodes(model, accelerator, serving)]


def _alone(model: Model, accelerator: Accelerator, serving: Serving, found: Fit) -> list[Change]:
    return [
        *_utilization(model, accelerator, serving, found),
        *_length(model, accelerator, serving, found),
        *_kv(model, accelerator, serving),
        *_bits(model, accelerator, serving),
        *_wider(model, accelerator, serving),
    ]


def _with_newest(
    model: Model, accelerator: Accelerator, serving: Serving, alone: list[Change]
) -> list[Change]:
    """And what is enough where the engine is known to be new: the version alone, or with one change more."""
    version = newer_than(serving.engine, OLDER[serving.engine])
    newer = replace(serving, version=version)
    made = fit(model, accelerator, newer)
    flag = f"--engine-version {version}"
    if made.fits:
        return [Change(flag, made), *alone]
    have = {each.flags.split()[0] for each in alone}
    more = [each for each in _alone(model, accelerator, newer, made) if each.flags.split()[0] not in have]
    return [*alone, *(Change(f"{each.flags} {flag}", each.fit) for each in more)]


def _hopeless(model: Model, accelerator: Accelerator, serving: Serving) -> bool:
    """Whether the weights alone are more than all devices have: seen before they are dealt out."""
    if serving.weights_bytes is not None:
        return False
    return _all_weights(model) > accelerator.memory_bytes * serving.plan.devices


@lru_cache(maxsize=8)
def _all_weights(model: Model) -> float:
    return weights_bytes(model.spec, model.storage)


def _tried(model: Model, accelerator: Accelerator, serving: Serving, flags: str) -> Iterator[Change]:
    """Nothing where it does not fit so, either."""
    if _hopeless(model, accelerator, serving):
        return
    try:
        made = fit(model, accelerator, serving)
    except InputError:
        return
    if made.fits:
        yield Change(flags, made)


def _utilization(model: Model, accelerator: Accelerator, serving: Serving, found: Fit) -> Iterator[Change]:
    if serving.kv_pool_bytes is not None:
        return
    found = found.older or found
    least = found.settings.utilization + found.short_bytes / found.memory_bytes
    for step in range(3):
        wanted = ceil(least * 100) / 100 + step / 100
        if found.settings.utilization < wanted <= HIGHEST_UTILIZATION:
            changed = replace(serving, utilization=wanted)
            made = [*_tried(model, accelerator, changed, f"--gpu-memory-utilization {wanted:g}")]
            if made:
                yield made[0]
                return


def _length(model: Model, accelerator: Accelerator, serving: Serving, found: Fit) -> Iterator[Change]:
    """The longest that fits; where the reserve grows with the length, by halving."""

    def at(length: int) -> Fit:
        return fit(model, accelerator, replace(serving, max_model_len=length))

    found = found.older or found
    length = found.capacity.longest
    if length >= found.settings.max_model_len:
        return
    if at(max(length, 1)).kv_pool_bytes != found.kv_pool_bytes:
        length = longest(lambda tokens: tokens == 0 or at(tokens).fits, found.settings.max_model_len)
    if length and (made := at(length)).fits:
        yield Change(f"--max-model-len {length}", made)


def _kv(model: Model, accelerator: Accelerator, serving: Serving) -> Iterator[Change]:
    if KV_FORMATS[serving.kv] > 1:
        yield from _tried(model, accelerator, replace(serving, kv="fp8"), "--kv fp8")


def _bits(model: Model, accelerator: Accelerator, serving: Serving) -> Iterator[Change]:
    if serving.weights_bytes is not None:
        return
    for name, narrow in _narrower(model):
        made = [*_tried(narrow, accelerator, serving, f"--weights {name}")]
        if made:
            yield made[0]
            return


def _narrower(model: Model) -> Iterator[tuple[str, Model]]:
    for name in FEWER_BITS:
        narrow = replace(model, storage=uniform(name))
        if _all_weights(narrow) < 0.9 * _all_weights(model):
            yield name, narrow


def _sizes(accelerator: Accelerator, serving: Serving) -> list[int]:
    """Tensor parallel sizes beyond the one asked for, inside a node: powers of two first, as people have."""
    if serving.weights_bytes is not None or serving.kv_pool_bytes is not None:
        return []
    beyond = range(serving.plan.tp + 1, accelerator.devices_per_node // serving.plan.pp + 1)
    return sorted(beyond, key=lambda size: (size.bit_count() > 1, size))


def _wider(model: Model, accelerator: Accelerator, serving: Serving) -> Iterator[Change]:
    for tp in _sizes(accelerator, serving):
        changed = replace(serving, plan=replace(serving.plan, tp=tp))
        made = [*_tried(model, accelerator, changed, f"--tp {tp}")]
        if made:
            yield made[0]
            return


def _fewer_bits_and_wider(model: Model, accelerator: Accelerator, serving: Serving) -> Iterator[Change]:
    for name, narrow in _narrower(model):
        for change in _wider(narrow, accelerator, serving):
            yield Change(f"--weights {name} {change.flags}", change.fit)
            return


def _nodes(model: Model, accelerator: Accelerator, serving: Serving) -> Iterator[Change]:
    """Whole nodes as pipeline stages."""
    if serving.weights_bytes is not None or serving.kv_pool_bytes is not None:
        return
    for tp in sorted({serving.plan.tp, *_sizes(accelerator, serving)}, reverse=True):
        for pp in range(serving.plan.pp + 1, MOST_STAGES + 1):
            changed = replace(serving, plan=replace(serving.plan, tp=tp, pp=pp))
            made = [*_tried(model, accelerator, changed, f"--tp {tp} --pp {pp}")]
            if made:
                yield made[0]
                return
