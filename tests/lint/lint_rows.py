"""Points for tests of the lint, and how they are checked."""

from typing import Any

from twophase.lint.lint import Checked, check
from twophase.lint.names import Models
from twophase.lint.served import Sources, resolver
from twophase.results import Point

SERVED = resolver(Sources(Models()))
LLAMA_70B: dict[str, Any] = {"model": "Llama-3.3-70B", "gpu": "h100-sxm", "tp": 1, "weights": "fp8"}


def checked(**fields: Any) -> Checked:
    return check(Point(row="a", **{**LLAMA_70B, **fields}), SERVED)


def assumptions(own: Checked) -> set[str]:
    return {each.assumption for flag in own.flags for each in flag.breaks}
