"""The kernels' curves of an accelerator: its own where it was measured, else a relative's."""

from dataclasses import dataclass, field

import numpy as np

from twophase.calibration.gemm import GemmCurve
from twophase.hardware.accelerator import Accelerator

NONE = np.zeros(0)


@dataclass(frozen=True, slots=True)
class AttentionCurve:
    launch_s: float  # of a pass's kernel in one layer
    span_s: float
    memory: float  # share of the bandwidth at which decode reads the cache
    compute: float  # share of the peak at which pairs are counted


@dataclass(frozen=True, slots=True)
class ExchangeCurve:
    launch_s: float  # with two devices
    hop_s: float  # for each doubling of them
    bandwidth: float  # share of the link's, a ring's bytes


@dataclass(frozen=True, slots=True)
class Curves:
    gemm: dict[str, GemmCurve] = field(default_factory=dict)  # by kernel: bf16, fp8, fp8-block, fp4, w4a16
    experts: dict[str, GemmCurve] = field(default_factory=dict)
    prompt: AttentionCurve = AttentionCurve(8e-6, 1e-6, 0.8, 0.55)
    decode: AttentionCurve = AttentionCurve(8e-6, 0.05e-6, 0.8, 0.5)
    exchange: ExchangeCurve = ExchangeCurve(3.5e-6, 0.7e-6, 0.8)
    small_launch_s: float = 2.2e-6  # of a norm, a rotation, an activation
    small_memory: float = 0.6
    interval: tuple[float, float] = (0.8, 1.4)
    extrapolated: bool = True
    source: str = ""


def curves_of(accelerator: Accelerator) -> Curves:
    return Curves(
        gemm={
            "bf16": GemmCurve("bf16", 2e-6, 0.78, 0.85, 3.0, NONE, NONE, NONE),
            "fp8": GemmCurve("fp8", 3e-6, 0.6, 0.75, 2.5, NONE, NONE, NONE),
            "fp8-block": GemmCurve("fp8", 4e-6, 0.5, 0.7, 2.5, NONE, NONE, NONE),
            "fp4": GemmCurve("fp4", 5e-6, 0.45, 0.6, 2.5, NONE, NONE, NONE),
            "w4a16": GemmCurve("bf16", 3e-6, 0.6, 0.75, 2.5, NONE, NONE, NONE),
        },
        experts={
            "bf16": GemmCurve("bf16", 15e-6, 0.5, 0.75, 2.0, NONE, NONE, NONE),
            "fp8": GemmCurve("fp8", 20e-6, 0.4, 0.7, 2.0, NONE, NONE, NONE),
            "fp8-block": GemmCurve("fp8", 20e-6, 0.4, 0.7, 2.0, NONE, NONE, NONE),
            "fp4": GemmCurve("fp4", 25e-6, 0.35, 0.6, 2.0, NONE, NONE, NONE),
            "w4a16": GemmCurve("bf16", 20e-6, 0.5, 0.65, 2.0, NONE, NONE, NONE),
        },
    )
