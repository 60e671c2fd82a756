"""twophase model: what a network is made of, what it weighs and what it remembers."""

from typing import Annotated

import typer

from twophase.cli.deployment import DescribedModel, KVOption, WeightsOption, loaded
from twophase.cli.options import JsonOption
from twophase.cli.sizes import sizes_of

CONTEXTS = "2048,8192,32768,131072"


def model(
    name: DescribedModel,
    *,
    contexts: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES",
            help="Tokens at which the cache is shown: 1,16 or 1:64:x2.",
            show_default=f"{CONTEXTS} and the model's longest",
        ),
    ] = None,
    weights: WeightsOption = None,
    kv: KVOption = "bf16",
    json: JsonOption = False,
) -> None:
    """Show a model's parameters by part, its bytes as stored, its KV cache and state, and its layers."""
    asked = sizes_of("--contexts", CONTEXTS if contexts is None else contexts)

    from twophase.model.formats import KV_FORMATS
    from twophase.report.model import ModelReport, plain, to_json

    own = loaded(name, weights, as_published=True)
    longest = own.spec.context_length
    if contexts is None:
        asked = [context for context in asked if context < longest] + [longest]
    report = ModelReport(
        model=own,
        kv_format=kv,
        kv_element_bytes=KV_FORMATS[kv],
        contexts=asked,
    )
    print(to_json(report) if json else plain(report))
