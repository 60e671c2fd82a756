"""How a row says that its model is served: the deployments of both phases, and the devices."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.errors import InputError, nearest
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.catalogue import load_accelerator
from twophase.lint.deployed import Deployed, deployed
from twophase.lint.names import Models, network_of
from twophase.lint.plans import (
    has_experts,
    one_prompt_plan,
    pool_cells,
    pool_plan,
    stated_plan,
    steps_plan,
    workers_of,
)
from twophase.model.catalogue import Model, load_model
from twophase.model.formats import ALIASES, KV_FORMATS
from twophase.model.module_rules import Kind
from twophase.model.quantization import UNQUANTISED, Storage, uniform
from twophase.results import Point

T = TypeVar("T")

QUANTISED: frozenset[Kind] = frozenset({"matrix", "embedding", "head"})
SERVED_BY = ("weights", "kv", "tp", "pp", "dp", "ep", "gpus", "disaggregated")  # a point's fields


@dataclass(frozen=True, slots=True)
class Served:
    """Of two pools, prefill and decode are on devices of their own; else on the same."""

    model: str
    accelerator: Accelerator
    prefill: Deployed  # on the devices that compute one prompt
    decode: Deployed
    replicas: int  # that share the sequences of decode steps
    devices: int  # of the whole system
    spread: bool = True  # whether it is known over how many replicas the sequences are spread
    assumed: tuple[str, ...] = ()  # what the row leaves open


@dataclass(frozen=True, slots=True)
class Sources:
    """Where names lead: models, and accelerators of a user's file."""

    models: Models
    model: str | None = None  # of all rows
    hardware: Path | None = None


def resolver(sources: Sources) -> Callable[[Point], Served]:
    """A function from points to how they are served; InputError says why that is not known."""
    accelerator_of = _remembered(lambda name: load_accelerator(name, sources.hardware))
    model_of = _remembered(load_model)
    known: dict[object, Served] = {}

    def served(point: Point) -> Served:
        name = sources.model or point.model
        if not name:
            raise InputError("the row names no model: give --model")
        if not point.gpu:
            raise InputError("the row names no GPU: give --gpu")
        model = model_of(sources.model or sources.models.find(name))
        count, gpu = _counted(point.gpu)
        key = (name, gpu, count, *(getattr(point, field) for field in SERVED_BY), pool_cells(point))
        if key not in known:
            counted = replace(point, gpus=point.gpus or count)
            known[key] = _served(counted, model, name, accelerator_of(gpu))
        return known[key]

    return served


def _remembered(load: Callable[[str], T]) -> Callable[[str], T]:
    """A failure is remembered, too: looking for the nearest of many names takes long."""
    known: dict[str, T | InputError] = {}

    def found(name: str) -> T:
        if name not in known:
            try:
                known[name] = load(name)
            except InputError as error:
                known[name] = error
        value = known[name]
        if isinstance(value, InputError):
            raise value
        return value

    return found


def _counted(gpu: str) -> tuple[int | None, str]:
    """(8, "H100") of "8x H100". A cap of its power is left out: under it no floor falls."""
    before, by, after = gpu.strip().partition("x")
    counted = by and re.fullmatch(r"[0-9]{1,6}", before.strip()) and after.strip()
    bare = (after if counted else gpu).strip().removesuffix("-pcap")
    return (int(before) or None if counted else None), bare


def _served(point: Point, model: Model, name: str, accelerator: Accelerator) -> Served:
    assumed: list[str] = []
    storage = _storage(model, point.weights or network_of(name)[1])
    kv_bytes = _kv_bytes(point, storage)
    own = Deployment(model.spec, storage, kv_bytes, kv_integers=(point.kv or "").startswith("int"))
    if point.disaggregated:
        prefill, decode = pool_plan(point, "prefill"), pool_plan(point, "decode")
        others, workers = workers_of(point, "prefill"), workers_of(point, "decode")
        devices = prefill.devices * (others or 1) + decode.devices * (workers or 1)
        spread = bool(workers)
        if not spread:
            assumed.append("one sequence in a decode step (no number of decode workers is stated)")
    else:
        prefill = decode = stated_plan(point, assumed)
        workers, devices, spread = 1, decode.devices, True
    layers = len(model.spec.layers)
    for plan in (prefill, decode):
        if plan.pp > layers:
            raise InputError(f"PP {plan.pp}: {model.spec.name} has {layers} layers, one a stage at least")
    sparse = has_experts(model.spec)
    return Served(
        model=model.spec.name.replace("--", "/"),  # a config.json named ORG--NAME.json
        accelerator=accelerator,
        prefill=deployed(replace(own, plan=one_prompt_plan(prefill, sparse))),
        decode=deployed(replace(own, plan=steps_plan(decode, sparse))),
        replicas=decode.dp * (workers or 1),
        devices=point.gpus or devices,
        spread=spread,
        assumed=tuple(assumed),
    )


@lru_cache(maxsize=1024)
def strict_storage(weights: str) -> Storage:
    """Every matrix in that format, embedding and head too: the least that a checkpoint can hold."""
    storage = uniform(weights)
    return storage if storage.linear == storage.default else replace(storage, quantised=QUANTISED)


def _storage(model: Model, weights: str | None) -> Storage:
    published = model.storage
    if weights is None:
        return strict_storage("bf16") if published.name == "float32" else published
    if weights == published.name:
        return published
    return strict_storage("nvfp4" if weights == "fp4" else weights)


def _kv_bytes(point: Point, storage: Storage) -> float:
    """Engines keep the cache of an unquantised model in 16 bits, and of others in 16 or in 8."""
    if point.kv is None:
        return KV_FORMATS.get(storage.kv or "", 2.0 if storage.name in UNQUANTISED else 1.0)
    kv = ALIASES.get(point.kv, point.kv)
    if kv not in KV_FORMATS:
        raise InputError(f"the KV cache's format {kv!r} is not known{nearest(kv, KV_FORMATS)}")
    return KV_FORMATS[kv]


def with_plan(served: Served, plan: Plan) -> Served:
    """The same on other devices."""
    sparse = has_experts(served.decode.own.spec)
    return replace(
        served,
        prefill=deployed(replace(served.prefill.own, plan=one_prompt_plan(plan, sparse))),
        decode=deployed(replace(served.decode.own, plan=steps_plan(plan, sparse))),
        replicas=plan.dp,
        devices=plan.devices,
    )


def with_weights(served: Served, weights: str) -> Served:
    """The same with weights in another format, and the KV cache in 8 bits."""
    storage, kv_bytes = strict_storage(weights), min(served.decode.own.kv_bytes, 1.0)
    prefill, decode = (
        deployed(replace(each.own, storage=storage, kv_bytes=kv_bytes))
        for each in (served.prefill, served.decode)
    )
    return replace(served, prefill=prefill, decode=decode)
