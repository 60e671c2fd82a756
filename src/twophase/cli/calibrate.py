"""twophase calibrate: a machine's own factors and overheads, from passes that were measured on it."""

from pathlib import Path
from typing import Annotated

import typer

from twophase.cli.deployment import (
    ActivationsOption,
    DescribedModel,
    DpOption,
    EpOption,
    GpuOption,
    HardwareOption,
    KVOption,
    PpOption,
    TpOption,
    WeightsOption,
)
from twophase.cli.options import JsonOption, require_writable, warn, write

POOR = 0.15  # p90 of the error beyond which a calibration doesn't explain its own passes


def calibrate(
    model: DescribedModel,
    *,
    passes: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Measured passes, JSONL or Parquet: shape [[new, context], ...] and seconds of each; or the "
            "JSON of twophase bench with both curves.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Write what simulate --calibration reads.")
    ],
    gpu: GpuOption = "h100-sxm",
    hardware: HardwareOption = None,
    engine: Annotated[str, typer.Option(metavar="NAME", help="Whose passes: vllm, sglang, trtllm.")] = "vllm",
    weights: WeightsOption = None,
    kv: KVOption = "bf16",
    activations: ActivationsOption = None,
    tp: TpOption = 1,
    pp: PpOption = 1,
    ep: EpOption = 1,
    dp: DpOption = 1,
    json: JsonOption = False,
) -> None:
    """Fit what simulated passes take to a handful of measured ones."""
    require_writable("--out", out)

    from twophase.calibration.fitting import calibrate as fit
    from twophase.calibration.kept import to_json
    from twophase.calibration.measured_passes import read_passes
    from twophase.cli.deployment import deployment_of, loaded
    from twophase.cost.parallel import Plan
    from twophase.hardware.catalogue import load_accelerator

    accelerator = load_accelerator(gpu, hardware)
    own = deployment_of(loaded(model, weights), kv, activations, Plan(tp, pp, ep, dp))
    found = fit(own, accelerator, engine, read_passes(passes), f"{passes.name}, {accelerator.title}")
    text = to_json(found)
    write("--out", out, text.encode())
    if found.p90_error is not None and found.p90_error > POOR:
        warn(
            f"one measured pass in ten is {found.p90_error:.0%} or more from the fit: "
            "are they all of this model and machine?"
        )
    if json:
        print(text, end="")
        return
    base = "kernels' curves" if found.base == "curves" else "arithmetic"
    error = "unknown: too few passes to tell it, taken as wide as without them ({:.2f} to {:.2f})".format(
        *found.interval
    )
    if found.median_error is not None and found.p90_error is not None:
        error = f"median {found.median_error:.1%}, nine in ten below {found.p90_error:.1%}"
    print(
        f"{own.spec.name} on {accelerator.title}: {found.passes:,} passes, up to {found.most_rows:,} rows, "
        f"{found.most_context:,} tokens of context\n"
        f"error of the fit: {error}; it scales {base}\n"
        f"{out}: simulate --calibration reads it"
    )
