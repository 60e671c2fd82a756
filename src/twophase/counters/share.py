"""The share of GPU time that is prefill's, with how it was found and how far it may be off."""

from dataclasses import dataclass
from typing import Literal

Method = Literal["engine", "engine-partly", "calibrated", "interference", "roofline"]

SAID: dict[Method, str] = {
    "engine": "exact, the engine's own seconds",
    "engine-partly": "the engine's prefill seconds; decode's from its slots",
    "calibrated": "curves that were measured of this server",
    "interference": "how much other requests' prefill stretches ITL",
    "roofline": "the roofline's floors of the model's passes",
}


@dataclass(frozen=True, slots=True)
class Range:
    """low and high: between these the truth lies, as far as the method knows."""

    low: float
    mid: float
    high: float

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.mid + other.mid, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Share:
    method: Method
    prefill: Range  # of the time in which the device works
    prefill_s: Range | None  # of the window; None: the method tells shares only
    decode_s: Range | None
    why: tuple[str, ...] = ()  # what it rests on


def share_of(method: Method, prefill_s: Range, decode_s: Range, why: tuple[str, ...]) -> Share:
    return Share(
        method,
        Range(
            part(prefill_s.low, decode_s.high),
            part(prefill_s.mid, decode_s.mid),
            part(prefill_s.high, decode_s.low),
        ),
        prefill_s,
        decode_s,
        why,
    )


def part(one: float, other: float) -> float:
    return one / (one + other) if one + other > 0 else 0.0


def exactly(seconds: float) -> Range:
    return Range(seconds, seconds, seconds)
