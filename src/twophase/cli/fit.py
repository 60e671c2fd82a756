"""twophase fit: whether a model fits on its devices, and how much KV cache is left."""

import re
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twophase.cli.deployment import (
    DescribedModel,
    DpOption,
    EpOption,
    GpuOption,
    HardwareOption,
    PpOption,
    TpOption,
    WeightsOption,
    loaded,
)
from twophase.cli.options import JsonOption, PlainOption, require_one_form, warn
from twophase.cli.sizes import sizes_of
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.report.fit import FitReport

Engine = Literal["vllm", "sglang", "trtllm", "plain"]

UNITS = {
    **{"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12},
    **{"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40},
}
LARGEST_LENGTH = 100_000_000  # tokens


def fit(
    model: DescribedModel,
    *,
    gpu: GpuOption = "h100-sxm",
    hardware: HardwareOption = None,
    tp: TpOption = 1,
    pp: PpOption = 1,
    ep: EpOption = 1,
    dp: DpOption = 1,
    weights: WeightsOption = None,
    kv: Annotated[str, typer.Option(metavar="FORMAT", help="How the KV cache is stored.")] = "bf16",
    engine: Annotated[Engine, typer.Option(help="Whose memory management.")] = "vllm",
    engine_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Such as 0.16.", show_default="the newest, and 0.16 must fit, too"
        ),
    ] = None,
    utilization: Annotated[
        float | None,
        typer.Option(
            "--gpu-memory-utilization",
            metavar="SHARE",
            help="Of memory, the engine's; SGLang's static fraction, TensorRT-LLM's of what is free.",
            show_default="0.9; 1 of plain",
        ),
    ] = None,
    max_model_len: Annotated[
        int | None, typer.Option(metavar="N", help="The longest sequence.", show_default="the model's")
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a pass.", show_default="the engine's")
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(metavar="N", help="Sequences of a pass.", show_default="the engine's")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a block.", show_default="the engine's")
    ] = None,
    prefix_caching: Annotated[bool, typer.Option(help="Whether states are kept for shared prefixes.")] = True,
    context: Annotated[
        str | None,
        typer.Option(
            "--contexts",
            "--context",
            metavar="SIZES",
            help="Show the largest batch at these contexts: 2048,8192.",
        ),
    ] = None,
    kv_pool_bytes: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Set the KV pool of a device: 58.11GiB, 62395137392.")
    ] = None,
    weights_bytes: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Set the weights on a device.")
    ] = None,
    activation_bytes: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Set the peak of activations on a device.")
    ] = None,
    non_torch_bytes: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Set what lies outside the tensor library.")
    ] = None,
    json: JsonOption = False,
    plain: PlainOption = False,
) -> None:
    """Show whether a model fits on its devices, every term of its memory, and how much KV cache is left."""
    require_one_form(json, plain)
    for option, size in (
        ("--max-model-len", max_model_len),
        ("--max-num-batched-tokens", max_num_batched_tokens),
        ("--max-num-seqs", max_num_seqs),
        ("--block-size", block_size),
    ):
        if size is not None and not 1 <= size <= LARGEST_LENGTH:
            raise InputError(f"{option} {size}: it must be a whole number from 1 to {LARGEST_LENGTH:,}")
    contexts = sizes_of("--contexts", context, LARGEST_LENGTH) if context is not None else []

    from twophase.cost.parallel import Plan
    from twophase.fit.fit import fit as fit_of
    from twophase.fit.serving import Serving
    from twophase.fit.smallest_change import smallest_changes
    from twophase.hardware.catalogue import load_accelerator
    from twophase.report.fit import FitReport

    serving = Serving(
        engine=engine,
        version=engine_version,
        plan=Plan(tp, pp, ep, dp),
        kv=kv.lower(),
        utilization=utilization,
        max_model_len=max_model_len,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        block_size=block_size,
        prefix_caching=prefix_caching,
        kv_pool_bytes=bytes_of("--kv-pool-bytes", kv_pool_bytes),
        weights_bytes=bytes_of("--weights-bytes", weights_bytes),
        activation_bytes=bytes_of("--activation-bytes", activation_bytes),
        non_torch_bytes=bytes_of("--non-torch-bytes", non_torch_bytes),
    )
    own = loaded(model, weights)
    accelerator = load_accelerator(gpu, hardware)
    if max_model_len is not None and max_model_len > own.spec.context_length:
        warn(
            f"--max-model-len {max_model_len} is beyond {own.spec.name}'s context window of "
            f"{own.spec.context_length}: engines refuse it unless told otherwise"
        )
    found = fit_of(own, accelerator, serving)
    needs = [] if found.fits else smallest_changes(own, accelerator, serving, found)
    show(FitReport(own.spec, accelerator, found, needs, contexts), json=json, plain=plain)


def bytes_of(option: str, text: str | None) -> float | None:
    """Bytes, or a number with its unit: 58.11GiB, 62.4 GB."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,20}(?:\.\d{1,20})?(?:e\d{1,2})?)\s*([a-zA-Z]*)\s*", text)
    if found is None or found[2].lower() not in UNITS:
        raise InputError(f"{option} {text}: give bytes, or a number with its unit like 58.11GiB or 62.4GB")
    size = float(found[1]) * UNITS[found[2].lower()]
    if size > 1e18:
        raise InputError(f"{option} {text}: more than an exabyte on one device")
    return size


def show(report: "FitReport", *, json: bool, plain: bool) -> None:
    from twophase.report import fit as render

    if json:
        print(render.to_json(report))
    elif plain or not sys.stdout.isatty():
        print(render.plain(report))
    else:
        from rich.console import Console

        render.rich(report, Console(highlight=False))
