"""A published model in the formats in which it is served."""

import re
from dataclasses import replace

from twophase.model.catalogue import Model
from twophase.model.formats import format_named
from twophase.model.quantization import uniform

SAID = re.compile(
    r"(?:^|[^a-z0-9])(nvfp4|mxfp4|fp8|int8|int4|awq|gptq|w8a8|w4a16)(?![a-z0-9])", re.IGNORECASE
)


def served(model: Model, weights: str | None) -> Model:
    """With weights in a format by choice, InputError where none is called so.

    A checkpoint in 32 bits is served in 16 unless that is chosen, as engines do.
    """
    wanted = "bf16" if weights is None and model.storage.name == "float32" else weights
    return model if wanted is None else replace(model, storage=uniform(wanted))


def unsaid_format(model: Model) -> str | None:
    """The format that a model's name promises and its config does not; such configs are published."""
    found = SAID.search(model.spec.name)
    if found is None or model.storage.name not in ("float32", "bf16", "fp16"):
        return None
    return format_named(found[1]).name
