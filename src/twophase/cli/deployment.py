"""The options that say how a model is served, and the deployment that they make."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twophase.cli.options import warn

if TYPE_CHECKING:
    from twophase.cost.deployment import Deployment
    from twophase.cost.parallel import Plan
    from twophase.model.catalogue import Model

DescribedModel = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A catalogue name, a config.json or its directory, a GGUF file."),
]
GpuOption = Annotated[str, typer.Option("--gpu", metavar="NAME", help="The accelerator.")]
HardwareOption = Annotated[
    Path | None,
    typer.Option("--hardware", metavar="FILE", help="A TOML or JSON file with accelerators of your own."),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="FORMAT",
        help="How weights are stored: bf16, fp8, int8, int4, mxfp4, nvfp4, a GGUF type such as q4_k_m ...",
        show_default="the checkpoint's",
    ),
]
KV = Literal["bf16", "fp16", "fp8", "int8"]
KVOption = Annotated[KV, typer.Option("--kv", help="How the KV cache is stored.")]
Activations = Literal["bf16", "fp16", "fp8", "int8", "fp4"]
ActivationsOption = Annotated[
    Activations | None,
    typer.Option(
        "--activations",
        help="Operands of the arithmetic.",
        show_default="the fastest that the weights' format allows",
    ),
]
TpOption = Annotated[int, typer.Option("--tp", metavar="N", help="Devices that share each layer.")]
PpOption = Annotated[int, typer.Option("--pp", metavar="N", help="Pipeline stages.")]
EpOption = Annotated[
    int, typer.Option("--ep", metavar="N", help="Devices that routed experts are dealt over.")
]
DpOption = Annotated[int, typer.Option("--dp", metavar="N", help="Replicas that share the sequences.")]


def loaded(name: str, weights: str | None, as_published: bool = False) -> "Model":
    """The model as it is served; a warning where its name promises a format that its config does not.

    as_published: without a choice of weights, in the checkpoint's own bits even where they are 32.
    """
    from twophase.model.catalogue import load_model
    from twophase.model.served import served, unsaid_format

    published = load_model(name)
    model = published if as_published and weights is None else served(published, weights)
    if model.storage.linear.approximate:
        warn(
            f"{model.storage.name.upper()} mixes formats, in each model others: bytes are by an average of "
            f"{model.storage.linear.bits:.2f} bits a weight; a GGUF file itself is counted exactly"
        )
    promised = unsaid_format(published) if weights is None else None
    if promised:
        warn(
            f"{model.spec.name} is called {promised.upper()}, and its config does not say so: counted in "
            f"{model.storage.name.upper()}; --weights {promised} counts it so"
        )
    return model


def deployment_of(model: "Model", kv: KV, activations: str | None, plan: "Plan") -> "Deployment":
    """InputError for a plan that engines refuse."""
    from twophase.cost.deployment import deployed
    from twophase.cost.parallel import require_divisible

    require_divisible(model.spec, plan)
    return deployed(model, plan, kv, activations)
