"""Does a model fit, and how much KV cache is left: every term by name, and where it comes from."""

from dataclasses import dataclass, replace

from twophase.cost.parallel import require_divisible, stages
from twophase.fit.capacity import Capacity, capacity_of, concurrency, sequence_cost
from twophase.fit.layouts import layout_of
from twophase.fit.pools import Layout
from twophase.fit.reserves import Engine, Reserves, activation_bytes, non_torch_bytes, reserves_of
from twophase.fit.serving import Serving, Settings, settings_of
from twophase.fit.weights import Term, weights_of
from twophase.hardware.accelerator import Accelerator
from twophase.model.catalogue import Model

# Versions still in use that keep much more than the newest: what fits only without them is not sure to fit.
OLDER: dict[Engine, str] = {"vllm": "0.16"}


@dataclass(frozen=True, slots=True)
class Fit:
    """Of one device of the pipeline stage that binds. Sizes in bytes."""

    serving: Serving
    settings: Settings
    memory_bytes: float
    usable_bytes: float  # of it, the engine's: usable = weights + reserve + pool
    weights: Term
    activation: Term
    non_torch: Term
    reserve_bytes: float
    kv_pool_bytes: float  # below zero where weights and reserve alone are too much
    layout: Layout
    capacity: Capacity
    sequence_bytes: float  # of the pool, that one sequence of max_model_len needs
    stage: int
    source: str  # of the engine's constants
    older: "Fit | None" = None  # with an earlier version of the engine, where no version is asked for: no fit

    @property
    def fits(self) -> bool:
        """The engine starts: weights and reserve have room, and one sequence of max_model_len has.

        Where no version is asked for, so does the last one that kept much more for activations.
        """
        room = self.over_bytes <= 0 and self.kv_pool_bytes >= 0 and self.capacity.concurrency >= 1
        return room and self.older is None

    @property
    def over_bytes(self) -> float:
        """Of weights and pool, beyond the memory that there is."""
        return self.weights.bytes + max(self.kv_pool_bytes, 0) - self.memory_bytes

    @property
    def short_bytes(self) -> float:
        """Missing on each device; 0 where it fits."""
        if self.older:
            return self.older.short_bytes
        return 0.0 if self.fits else max(self.sequence_bytes - self.kv_pool_bytes, self.over_bytes)

    def sequences(self, context: int) -> int:
        """The most that are resident at once at that context."""
        return int(concurrency(self.layout, self.kv_pool_bytes, context))


def fit(model: Model, accelerator: Accelerator, serving: Serving) -> Fit:
    """InputError where engines refuse the plan, or an option is out of range."""
    require_divisible(model.spec, serving.plan)
    found = _fit(model, accelerator, serving)
    if found.fits and serving.version is None and serving.engine in OLDER:
        older = _fit(model, accelerator, replace(serving, version=OLDER[serving.engine]))
        return found if older.fits else replace(found, older=older)
    return found


def _fit(model: Model, accelerator: Accelerator, serving: Serving) -> Fit:
    constants = reserves_of(serving.engine, serving.version)
    settings = settings_of(serving, model.spec, accelerator, constants)
    weights = weights_of(model, serving)
    found = [
        _stage(model, accelerator, serving, settings, constants, number, layers, weights[number])
        for number, layers in enumerate(stages(model.spec, serving.plan.pp))
    ]
    return min(found, key=lambda each: (each.fits, each.capacity.concurrency, each.kv_pool_bytes))


def _stage(
    model: Model,
    accelerator: Accelerator,
    own: Serving,
    settings: Settings,
    constants: Reserves,
    number: int,
    layers: range,
    weights: Term,
) -> Fit:
    memory = accelerator.memory_bytes
    activation = _activation(model, own, settings, constants, has_head=number == own.plan.pp - 1)
    non_torch = _non_torch(own, constants)
    usable, reserve = _shares(memory, own, settings, weights, activation, non_torch)
    pool = usable - weights.bytes - reserve
    if own.kv_pool_bytes is not None:
        pool, usable = own.kv_pool_bytes, own.kv_pool_bytes + weights.bytes + reserve
    layout = layout_of(model.spec, layers, own, settings, constants)
    return Fit(
        serving=own,
        settings=settings,
        memory_bytes=memory,
        usable_bytes=usable,
        weights=weights,
        activation=activation,
        non_torch=non_torch,
        reserve_bytes=reserve,
        kv_pool_bytes=pool,
        layout=layout,
        capacity=capacity_of(layout, pool, settings.max_model_len, constants.log_divides),
        sequence_bytes=sequence_cost(layout, settings.max_model_len),
        stage=number,
        source=constants.source,
    )


def _shares(
    memory: float, own: Serving, settings: Settings, weights: Term, activation: Term, non_torch: Term
) -> tuple[float, float]:
    """(usable bytes, of which reserve), by what the engine takes its share of."""
    share, beside = settings.utilization, activation.bytes + non_torch.bytes
    match own.engine:
        case "sglang":  # of what is free before loading; activations lie in the rest
            given = activation.bytes if activation.origin == "given" else 0.0
            return (memory - non_torch.bytes) * share, given
        case "trtllm":  # of what is free after loading
            return memory, beside + (1 - share) * max(memory - weights.bytes - beside, 0.0)
        case _:  # of all memory
            return memory * share, beside


def _activation(model: Model, own: Serving, settings: Settings, constants: Reserves, has_head: bool) -> Term:
    if own.activation_bytes is not None:
        return Term("activations", own.activation_bytes, "given")
    tokens, sequences = settings.max_num_batched_tokens, settings.max_num_seqs
    peak = activation_bytes(constants, model.spec, own.plan, tokens, sequences, has_head)
    note = f"a pass of {tokens:,} tokens, {sequences:,} sequences" if peak else "not inside the share"
    return Term("activations", peak, "estimated", note)


def _non_torch(own: Serving, constants: Reserves) -> Term:
    if own.non_torch_bytes is not None:
        return Term("non-torch", own.non_torch_bytes, "given")
    return Term("non-torch", non_torch_bytes(constants, own.plan), "estimated", str(own.plan))
