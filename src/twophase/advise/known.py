"""The list of levers: what each changes, the phase that it works on, its price, and how to turn it on.

`diagnose` and `advise` weigh these same levers, each from what it knows.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Any, NamedTuple

from twophase.advise.diagnosis import Kind, Phase

ENGINES = ("vllm", "sglang", "ours")
DRAFTS = 3  # of speculative decoding, a pass
# Assumed, where nothing says it
ACCEPTANCE = 0.7  # of speculative decoding: chance of a draft, where those before it were accepted
REACHABLE = 0.9  # good kernels run at this share of the floor's speed


@dataclass(frozen=True, slots=True)
class Price:
    """What a lever costs beside its gain, in words; empty where it costs nothing."""

    quality: str = ""
    memory: str = ""
    money: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """`flags`: what turns it on, by engine; an engine that has no such thing is left out."""

    lever: str  # its key, stable
    title: str
    phase: Phase
    kind: Kind
    price: Price
    flags: Mapping[str, str]

    def filled(self, values: Mapping[str, object]) -> "Filled":
        """With numbers in its words; N where they aren't known."""
        known = {"drafts": DRAFTS, "sequences": "N", "tokens": "N", "tp": "N", "pp": "N", "factor": "more"}
        known |= {key: f"{value:g}" if isinstance(value, float) else value for key, value in values.items()}
        price = {name: text.format(**known) for name, text in asdict(self.price).items() if text}
        return Filled(price, {engine: text.format(**known) for engine, text in self.flags.items()})


class Filled(NamedTuple):
    price: Mapping[str, str]
    flags: Mapping[str, str]


@cache
def known_levers() -> Mapping[str, Known]:
    """By key, in the order in which levers of equal gain are shown."""
    text = files(__package__).joinpath("levers.toml").read_text(encoding="utf-8")
    return {key: _known(key, entry) for key, entry in loads(text).items()}


def _known(key: str, entry: Mapping[str, Any]) -> Known:
    return Known(
        lever=key,
        title=entry["title"],
        phase=entry["phase"],
        kind=entry["kind"],
        price=Price(**entry.get("price", {})),
        flags=entry.get("flags", {}),
    )
