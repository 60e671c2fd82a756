"""twophase phases: what each phase of a model costs at least on an accelerator, in two tables."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twophase.cli.deployment import (
    ActivationsOption,
    DpOption,
    EpOption,
    GpuOption,
    HardwareOption,
    KVOption,
    PpOption,
    TpOption,
    WeightsOption,
)
from twophase.cli.options import JsonOption, PlainOption, request_of, require_writable, warn, write
from twophase.cli.sizes import LARGEST, MOST, sizes_of
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.cost.phases import Residence
    from twophase.report.phases import PhasesReport

PROMPTS = "1,16,128,256,512,2048,8192,32768"
CONTEXTS = "128,2048,8192,32768"
REQUEST = "2000:500"
LARGEST_BATCH = 100_000
PLOTS = (".html", ".png", ".svg")


def phases(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]", help="A catalogue name, a config.json or its directory, a GGUF file."
        ),
    ] = "llama-3-8b",
    *,
    gpu: GpuOption = "h100-sxm",
    hardware: HardwareOption = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES", help="Prompt tokens: 1,16 or 1:64:x2 or 1:64:+8.", show_default=PROMPTS
        ),
    ] = None,
    contexts: Annotated[
        str | None,
        typer.Option(metavar="SIZES", help="Context tokens of decode steps.", show_default=CONTEXTS),
    ] = None,
    batch: Annotated[str, typer.Option(metavar="SIZES", help="Sequences in a decode step.")] = "1",
    request: Annotated[
        str | None,
        typer.Option(metavar="IN:OUT", help="The reference request, in tokens.", show_default=REQUEST),
    ] = None,
    weights: WeightsOption = None,
    kv: KVOption = "bf16",
    activations: ActivationsOption = None,
    tp: TpOption = 1,
    pp: PpOption = 1,
    ep: EpOption = 1,
    dp: DpOption = 1,
    logits: Annotated[
        Literal["all", "last"],
        typer.Option(help="Prompt rows that get logits: the textbook's all, or the last."),
    ] = "all",
    json: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="One CSV table of both phases.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="One Markdown table of both phases.")] = False,
    plain: PlainOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the roofline and the floors of TTFT and ITL, too: .html, .png or .svg."
        ),
    ] = None,
) -> None:
    """Show what prefill and decode cost on an accelerator: FLOPs, bytes, and the least time of a pass."""
    if json + csv + markdown + plain > 1:
        raise InputError("give one of --json, --csv, --markdown and --plain")
    prompt_sizes = sizes_of("--prompts", PROMPTS if prompts is None else prompts)
    context_sizes = sizes_of("--contexts", CONTEXTS if contexts is None else contexts)
    batches = sizes_of("--batch", batch, LARGEST_BATCH)
    if len(context_sizes) * len(batches) > MOST:
        raise InputError(
            f"{len(context_sizes):,} contexts by {len(batches):,} batches are more than {MOST:,} rows"
        )
    split = request_of(REQUEST if request is None else request)
    if sum(split) > LARGEST:
        raise InputError(f"--request {request}: at most {LARGEST:,} tokens in all")
    if plot is not None:
        require_plot(plot)

    from twophase.cli.deployment import deployment_of, loaded
    from twophase.cost.parallel import Plan
    from twophase.cost.phases import phases as phases_of
    from twophase.hardware.catalogue import load_accelerator
    from twophase.report.phases import PhasesReport

    accelerator = load_accelerator(gpu, hardware)
    own = deployment_of(loaded(model, weights), kv, activations, Plan(tp, pp, ep, dp))
    spec = own.spec
    report = PhasesReport(
        deployment=own,
        accelerator=accelerator,
        kv_format=kv,
        logits=logits,
        phases=phases_of(own, accelerator, prompt_sizes, context_sizes, batches, split, logits),
    )
    asked = {
        "a prompt": max(prompt_sizes) if prompts is not None else 0,
        "a context": max(context_sizes) if contexts is not None else 0,
        "a request": sum(split) if request is not None else 0,
    }
    beyond = [f"{what} of {size}" for what, size in asked.items() if size > spec.context_length]
    if beyond:
        warn(f"{' and '.join(beyond)} tokens: beyond {spec.name}'s context window of {spec.context_length}")
    if not report.phases.residence.fits:
        warn(does_not_fit(spec.name, accelerator.title, report.phases.residence, own.plan.devices))
    if plot is not None:
        write_plot(report, plot)
    show(report, json=json, csv=csv, markdown=markdown, plain=plain)
    if plot is not None and not (json or csv or markdown):
        print(f"\nThe plot: {plot}")


def show(report: "PhasesReport", *, json: bool, csv: bool, markdown: bool, plain: bool) -> None:
    from twophase.report import phases as render
    from twophase.report import phases_data as data

    if json:
        print(data.to_json(report))
    elif csv:
        print(data.to_csv(report))
    elif markdown:
        print(data.to_markdown(report))
    elif plain or not sys.stdout.isatty():
        print(render.plain(report))
    else:
        from rich.console import Console

        render.rich(report, Console(highlight=False))


def require_plot(path: Path) -> None:
    """InputError where the plot could not be drawn or written, before anything is counted."""
    from twophase.report.vega import require_charts

    if path.suffix.lower() not in PLOTS:
        raise InputError(f"--plot {path}: give a file that ends in {', '.join(PLOTS[:-1])} or {PLOTS[-1]}")
    require_charts()
    require_writable("--plot", path)


def write_plot(report: "PhasesReport", path: Path) -> None:
    from twophase.report.phases_plot import draw

    write("--plot", path, draw(report, path.suffix.lower()))


def does_not_fit(model: str, accelerator: str, own: "Residence", devices: int) -> str:
    each = " each" if devices > 1 else ""
    return (
        f"{model} does not fit on {devices if devices > 1 else 'one'} {accelerator}: "
        f"{own.weights_bytes / 1e9:.1f} GB of weights and {own.kv_bytes / 1e9:.1f} GB of KV cache{each} are "
        f"{own.excess_bytes / 1e9:.1f} GB more than its {own.memory_bytes / 1e9:.4g} GB; "
        f"it would on {own.needs * devices}"
    )
