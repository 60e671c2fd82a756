"""twophase phases: what each phase of a model costs at least on an accelerator, in two tables."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twophase.cli.options import JsonOption, request_of
from twophase.cli.sizes import LARGEST, MOST, sizes_of
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.cost.phases import Residence
    from twophase.report.phases import PhasesReport

Weights = Literal["float32", "bf16", "fp16", "fp8", "int8", "int4"]
KV = Literal["bf16", "fp16", "fp8", "int8"]

BYTES = {"float32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
PROMPTS = "1,16,128,256,512,2048,8192,32768"
CONTEXTS = "128,2048,8192,32768"
REQUEST = "2000:500"
LARGEST_BATCH = 100_000


def phases(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]", help="A catalogue name, a config.json or its directory, a GGUF file."
        ),
    ] = "llama-3-8b",
    *,
    gpu: Annotated[str, typer.Option(metavar="NAME", help="The accelerator.")] = "h100-sxm",
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
    weights: Annotated[Weights, typer.Option(help="How weights are stored.")] = "bf16",
    kv: Annotated[KV, typer.Option(help="How the KV cache is stored.")] = "bf16",
    logits: Annotated[
        Literal["all", "last"],
        typer.Option(help="Prompt rows that get logits: the textbook's all, or the last."),
    ] = "all",
    json: JsonOption = False,
    csv: Annotated[bool, typer.Option("--csv", help="One CSV table of both phases.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="One Markdown table of both phases.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain text on a terminal, too.")] = False,
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

    from twophase.cost.phases import phases as phases_of
    from twophase.cost.textbook import Formats
    from twophase.hardware.catalogue import load_accelerator
    from twophase.model.catalogue import load_spec
    from twophase.model.cache import kv_bytes_per_token
    from twophase.model.counts import matmul_parameters
    from twophase.report.phases import PhasesReport

    spec, accelerator = load_spec(model), load_accelerator(gpu)
    formats = Formats(BYTES[weights], BYTES[kv], logits)
    report = PhasesReport(
        model=spec.name,
        accelerator=accelerator,
        formats=formats,
        weight_format=weights,
        kv_format=kv,
        matmul_parameters=matmul_parameters(spec),
        kv_bytes_per_token=kv_bytes_per_token(spec, formats.kv_bytes),
        phases=phases_of(spec, accelerator, formats, prompt_sizes, context_sizes, batches, split),
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
        warn(does_not_fit(spec.name, accelerator.title, report.phases.residence))
    show(report, json=json, csv=csv, markdown=markdown, plain=plain)


def show(report: "PhasesReport", *, json: bool, csv: bool, markdown: bool, plain: bool) -> None:
    from twophase.report import phases as render

    if json:
        print(render.to_json(report))
    elif csv:
        print(render.to_csv(report))
    elif markdown:
        print(render.to_markdown(report))
    elif plain or not sys.stdout.isatty():
        print(render.plain(report))
    else:
        from rich.console import Console

        render.rich(report, Console(highlight=False))


def does_not_fit(model: str, accelerator: str, own: "Residence") -> str:
    return (
        f"{model} does not fit on one {accelerator}: {own.weights_bytes / 1e9:.1f} GB of weights and "
        f"{own.kv_bytes / 1e9:.1f} GB of KV cache are {own.excess_bytes / 1e9:.1f} GB more than its "
        f"{own.memory_bytes / 1e9:g} GB; it would on {own.needs}"
    )


def warn(line: str) -> None:
    print(f"twophase: warning: {line}", file=sys.stderr)
