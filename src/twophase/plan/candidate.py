"""What may be bought: kinds of replicas, how many of them, and what that costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twophase.cost.parallel import Plan


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """What PassTimes depend on."""

    gpu: str
    weights: str  # a format; "": the checkpoint's
    kv: str
    tp: int
    pp: int
    ep: int

    @property
    def plan(self) -> Plan:
        return Plan(self.tp, self.pp, self.ep)

    @property
    def devices(self) -> int:
        return self.tp * self.pp


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """One replica, and the engine's options."""

    layout: Layout
    max_tokens: int  # rows of a pass
    max_sequences: int


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """So many replicas that serve; or, with `prefill`, that decode what others computed the prompts of."""

    serving: Kind
    replicas: int
    prefill: Kind | None = None
    prefill_replicas: int = 0

    @property
    def devices(self) -> int:
        first = self.prefill.layout.devices * self.prefill_replicas if self.prefill else 0
        return first + self.serving.layout.devices * self.replicas

    @property
    def gpu(self) -> str:
        return self.serving.layout.gpu


def usd_per_hour(own: Candidate, prices: Mapping[str, float]) -> float:
    """All devices are of one accelerator. Rounded, so that equal costs are equal."""
    return round(own.devices * prices[own.gpu], 6)


def key_of(own: Candidate) -> str:
    """A name that is the same in every run: for run folders and ties."""
    found = f"{_kind_key(own.serving)}x{own.replicas}"
    return found if own.prefill is None else f"{_kind_key(own.prefill)}x{own.prefill_replicas}+{found}"


def _kind_key(own: Kind) -> str:
    at = own.layout
    return (
        f"{at.gpu}/{at.weights or 'own'}/{at.kv}/tp{at.tp}pp{at.pp}ep{at.ep}"
        f"/{own.max_tokens}/{own.max_sequences}"
    )


def as_dict(own: Kind) -> dict[str, Any]:
    at = own.layout
    return {
        "gpu": at.gpu,
        "weights": at.weights or None,
        "kv": at.kv,
        "tp": at.tp,
        "pp": at.pp,
        "ep": at.ep,
        "max_tokens_per_pass": own.max_tokens,
        "max_sequences": own.max_sequences,
    }
