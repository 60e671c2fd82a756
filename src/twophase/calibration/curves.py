"""The kernels' curves of an accelerator: its own where it was measured, else a relative's.

curves.json holds what bench/kernel_curves.py fitted, with source, range and error.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curve import Curve, Grid
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
WIDER = 1.5  # an interval's logs are so much wider on accelerators that were not measured: assumed


@dataclass(frozen=True, slots=True)
class AttentionCurve:
    """Of one layer: a few shares and seconds that hold for one size of head and one format of the cache."""

    prompt_launch_s: float
    prompt_span_s: float
    prompt_query: float  # of a row's queries and outputs, over the bandwidth
    prompt_key: float  # of a row's keys and values
    prompt_pair: float  # of a pair's FLOPs, over the peak in 16 bits, where the machine is full
    prompt_full: float  # rows by heads of queries that fill it once
    prompt_step: float  # see PassTimes.mixers' PROMPT_STEP
    decode_launch_s: float
    decode_span_s: float
    decode_head_s: float  # of a span, for each key-value head
    decode_read: float  # of the cache's bytes, over the bandwidth
    decode_group: float  # and more for each doubling of the queries that share a key


@dataclass(frozen=True, slots=True)
class LatentCurve:
    prompt_pair: float
    decode_read: float
    decode_pair: float


@dataclass(frozen=True, slots=True)
class RecurrenceCurve:
    prompt_launch_s: float
    prompt_span: float  # of a state's bytes, over the bandwidth
    prompt_row: float  # of a row's activations
    prompt_flops: float  # of a row's FLOPs, over the peak in 16 bits
    decode_launch_s: float
    decode_span: float


@dataclass(frozen=True, slots=True)
class ExchangeCurve:
    """Seconds by payload, interpolated in logs, for 2, 4 and 8 devices."""

    payload: Floats
    seconds: Mapping[int, Floats]
    link: float  # bytes/s of the link that was measured


@dataclass(frozen=True, slots=True)
class Curves:
    gemm: Mapping[str, Curve]
    experts: Mapping[str, Curve]
    attention: Mapping[tuple[str, int], AttentionCurve]  # by the cache's format and the size of a head
    latent: Mapping[str, LatentCurve]
    recurrence: RecurrenceCurve
    exchange: Mapping[str, ExchangeCurve]
    mixed_read: float  # of decodes' cache beside prompts, over the bandwidth; 0: as in a pass of their own
    mixed_head_read: float  # and more for each query that shares a key
    small_launch_s: float  # of a norm, a rotation, an activation
    small_memory: float
    interval: tuple[float, float]
    extrapolated: bool
    source: str


@cache
def _file() -> dict[str, Any]:
    text = files("twophase.calibration").joinpath("curves.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def relative_of(accelerator: Accelerator) -> tuple[str, bool]:
    """(the measured machine whose curves speak for it, whether it is another)."""
    machines, relatives = _file()["machines"], _file()["relatives"]
    if accelerator.name in machines:
        return accelerator.name, False
    known: str = relatives.get(accelerator.name) or relatives.get(accelerator.vendor) or relatives["other"]
    return known, True


@cache
def _curves_of(machine: str, links: str, other: bool) -> Curves:
    machines = _file()["machines"]
    own = machines[machine]
    fallback = machines[own.get("else", machine)]

    def part(name: str) -> Any:
        return {**fallback[name], **own.get(name, {})}

    low, high = own["interval"]
    stretch = WIDER if other else 1.0
    return Curves(
        gemm={name: curve_of(each) for name, each in part("gemm").items()},
        experts={name: curve_of(each) for name, each in part("experts").items()},
        attention={
            (kv, int(size)): AttentionCurve(*each["prompt"], *each["decode"])
            for kv, sizes in part("attention").items()
            for size, each in sizes.items()
        },
        latent={kv: LatentCurve(*each) for kv, each in part("latent").items()},
        recurrence=RecurrenceCurve(*(own.get("recurrence") or fallback["recurrence"])),
        exchange={name: exchange_of(each) for name, each in machines[links]["exchange"].items()},
        mixed_read=own.get("mixed", (0.0, 0.0))[0],
        mixed_head_read=own.get("mixed", (0.0, 0.0))[1],
        small_launch_s=(own.get("small") or fallback["small"])[0],
        small_memory=(own.get("small") or fallback["small"])[1],
        interval=(low**stretch, high**stretch),
        extrapolated=other,
        source=f"kernels measured on {machine}: {own['source']}",
    )


def curves_of(accelerator: Accelerator) -> Curves:
    machine, other = relative_of(accelerator)
    own = _file()["machines"][machine]
    fast = accelerator.intra.bandwidth > _file()["slow_link"]
    links = machine if "exchange" in own and own["fast_link"] == fast else _file()["links"][str(fast).lower()]
    return _curves_of(machine, links, other)


def curve_of(entry: Mapping[str, Any]) -> Curve:
    grids = tuple(
        Grid(
            tuple(each["of"]),
            (np.array(each["at"][0], np.float64), np.array(each["at"][1], np.float64)),
            np.array(each["log"], np.float64),
        )
        for each in entry.get("grids", ())
    )
    return Curve(entry["kind"], entry["launch_s"], entry["compute"], entry["memory"], entry["knee"], grids)


def exchange_of(entry: Mapping[str, Any]) -> ExchangeCurve:
    return ExchangeCurve(
        payload=np.array(entry["bytes"], np.float64),
        seconds={int(devices): np.array(each) for devices, each in entry["seconds"].items()},
        link=entry["link"],
    )
