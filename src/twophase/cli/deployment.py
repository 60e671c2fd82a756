"""The options that say how a model is served, and the deployment that they make."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from twophase.cost.deployment import Deployment
    from twophase.cost.parallel import Plan
    from twophase.model.catalogue import Model

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


def deployment_of(
    model: "Model", weights: str | None, kv: KV, activations: str | None, plan: "Plan"
) -> "Deployment":
    """InputError for a format that is not known, or a plan that engines refuse.

    A checkpoint in 32 bits is served in 16, as engines do unless told otherwise.
    """
    from twophase.cost.deployment import Deployment
    from twophase.cost.parallel import require_divisible
    from twophase.model.formats import KV_FORMATS
    from twophase.model.quantization import uniform

    require_divisible(model.spec, plan)
    served = "bf16" if weights is None and model.storage.name == "float32" else weights
    storage = model.storage if served is None else uniform(served)
    return Deployment(model.spec, storage, KV_FORMATS[kv], plan, activations)
