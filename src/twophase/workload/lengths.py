"""Lengths of prompts and outputs in tokens: fixed or drawn, from a seed."""

import math
import re
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError

LARGEST = 10_000_000
FORMS = "512, normal:512,64, lognormal:512,0.5 or uniform:128,1024"
NUMBER = r"([0-9]{1,8}(?:\.[0-9]{1,6})?)"


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of whole numbers of tokens, 1 or more."""

    kind: str  # fixed, normal, lognormal, uniform
    first: float  # the mean; of a lognormal the median; of a uniform the least
    second: float = 0.0  # standard deviation; of a lognormal that of the logarithm; of a uniform the most

    def draw(self, rng: Random) -> int:
        """One, from a generator that is the request's own."""
        match self.kind:
            case "normal":
                value = rng.gauss(self.first, self.second)
            case "lognormal":
                value = rng.lognormvariate(math.log(self.first), self.second)
            case "uniform":
                value = rng.randint(int(self.first), int(self.second))
            case _:
                value = self.first
        return min(max(round(value), 1), LARGEST)

    def draws(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Many at once, from a generator that they share."""
        match self.kind:
            case "normal":
                values = rng.normal(self.first, self.second, count)
            case "lognormal":
                values = rng.lognormal(math.log(self.first), self.second, count)
            case "uniform":
                return rng.integers(int(self.first), int(self.second), count, endpoint=True)
            case _:
                values = np.full(count, self.first)
        return np.clip(np.rint(values), 1, LARGEST).astype(np.int64)

    def __str__(self) -> str:
        if self.kind == "fixed":
            return f"{self.first:g}"
        return f"{self.kind}:{self.first:g},{self.second:g}"


def lengths_of(option: str, text: str) -> Lengths:
    """From the command line; InputError where it says no distribution of token counts."""
    if found := re.fullmatch(r"[0-9]{1,8}", text.strip()):
        return checked(option, text, Lengths("fixed", float(found.group())))
    found = re.fullmatch(rf"(normal|lognormal|uniform):{NUMBER},{NUMBER}", text.replace(" ", ""))
    if not found:
        raise InputError(f"{option} {text}: give {FORMS}, in tokens")
    kind, first, second = found.groups()
    return checked(option, text, Lengths(kind, float(first), float(second)))


def checked(option: str, text: str, lengths: Lengths) -> Lengths:
    if not 1 <= lengths.first <= LARGEST:
        raise InputError(f"{option} {text}: lengths go from 1 to {LARGEST:,} tokens")
    if lengths.kind == "uniform" and not lengths.first <= lengths.second <= LARGEST:
        raise InputError(f"{option} {text}: give the least length first, then the most")
    if lengths.kind == "lognormal" and lengths.second > 5:
        raise InputError(
            f"{option} {text}: the second number is the standard deviation of the length's logarithm, "
            "like lognormal:512,0.5"
        )
    return lengths
