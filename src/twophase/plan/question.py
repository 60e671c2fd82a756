"""A question for the planner: what is served, where, how it is asked, and what must be kept."""

from collections.abc import Mapping
from dataclasses import dataclass

from twophase.calibration.calibrated import Calibration
from twophase.calibration.estimate import Provenance
from twophase.hardware.accelerator import Accelerator, Link
from twophase.model.catalogue import Model
from twophase.plan.slo import Slo
from twophase.plan.space import Space
from twophase.simulate.presets import Preset
from twophase.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    models: Mapping[str, Model]  # by the weights' format, "" as published
    accelerators: Mapping[str, Accelerator]
    prices: Mapping[str, float]  # USD per hour of one device
    workload: Workload
    slo: Slo
    space: Space
    preset: Preset
    context_length: int  # of the longest sequence that engines take
    router: str = "round-robin"
    link: Link | None = None  # between replicas; None: the accelerator's own between nodes
    provenance: Provenance | None = None  # of pass times; None: what came nearest to measured serving
    calibration: Calibration | None = None
    prefix_cache: bool = True
    seed: int = 0
    max_gpus: int | None = None  # None: a few times what the load needs
    max_cost: float | None = None  # USD per hour
