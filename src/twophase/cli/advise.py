"""twophase advise: what to change, from simulations of each lever before and after."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twophase.cli.advise_options import load_of, require_sound, seen_notes, seen_of
from twophase.cli.deployment import (
    DescribedModel,
    DpOption,
    EpOption,
    GpuOption,
    HardwareOption,
    KVOption,
    PpOption,
    TpOption,
    WeightsOption,
    loaded,
)
from twophase.cli.fit import bytes_of
from twophase.cli.options import JsonOption, PlainOption, from_user
from twophase.cli.progress import progress_bar, simulator_shown
from twophase.cli.serving_options import (
    AcceptanceOption,
    CalibrationOption,
    ClockOption,
    ContextLengthOption,
    KvMemoryOption,
    MaxSequencesOption,
    MaxTokensOption,
    PrefixCacheOption,
    PresetOption,
    calibration_of,
)

if TYPE_CHECKING:
    from twophase.advise.advising import Advising
    from twophase.advise.setup import Setup


def advise(
    context: typer.Context,
    model: DescribedModel,
    *,
    gpu: GpuOption = "h100-sxm",
    hardware: HardwareOption = None,
    tp: TpOption = 1,
    pp: PpOption = 1,
    ep: EpOption = 1,
    dp: DpOption = 1,
    weights: WeightsOption = None,
    kv: KVOption = "bf16",
    aim: Annotated[
        Literal["ttft", "itl", "throughput", "cost", "goodput"] | None,
        typer.Option(
            help="What is to become better.", show_default="goodput with --slo, else the larger phase's"
        ),
    ] = None,
    slo: Annotated[
        str | None, typer.Option(metavar="LIMITS", help="Of goodput: ttft=500ms,tpot=30ms, e2e too.")
    ] = None,
    prompt_tokens: Annotated[
        str | None,
        typer.Option(metavar="LENGTH", help="512, normal:512,64, lognormal:512,0.5, uniform:128,1024."),
    ] = None,
    output_tokens: Annotated[str | None, typer.Option(metavar="LENGTH", help="In the same forms.")] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="R", help="Requests per second.", show_default="60% of the most"),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="Clients, each of whom waits for its answer.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Arrivals and lengths, as `simulate` takes them.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="The load of a run that `bench` kept.")
    ] = None,
    counters: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The load of a window: `twophase counters --json`.")
    ] = None,
    requests: Annotated[int, typer.Option(metavar="N", help="Of a trace, at most.")] = 2000,
    shared: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Of each prompt, a beginning that all have.",
            show_default="none, and 0.5 where prefix caching is weighed",
        ),
    ] = None,
    acceptance: AcceptanceOption = 0.7,
    measured: Annotated[
        str | None,
        typer.Option(metavar="TIMES", help="What you see: ttft=300ms,tpot=40ms, to be held against this."),
    ] = None,
    preset: PresetOption = "vllm",
    policy: Annotated[str | None, typer.Option(help="Who goes first.", show_default="the preset's")] = None,
    max_sequences: MaxSequencesOption = None,
    max_tokens_per_pass: MaxTokensOption = None,
    context_length: ContextLengthOption = None,
    kv_blocks: Annotated[
        int | None, typer.Option(metavar="N", help="KV blocks of 16 tokens.", show_default="as fit counts")
    ] = None,
    kv_memory: KvMemoryOption = None,
    prefix_cache: PrefixCacheOption = True,
    speculate: Annotated[int, typer.Option(metavar="K", help="Drafts that are verified already.")] = 0,
    replicas: Annotated[int, typer.Option(metavar="N", help="Engines that share the load.")] = 1,
    clock: ClockOption = None,
    calibration: CalibrationOption = None,
    json: JsonOption = False,
    plain: PlainOption = False,
) -> int:
    """What to change: every lever simulated before and after, ranked by an aim, with its price and flags.

    The same options give the same advice on any machine.
    """
    paths = {"trace": trace, "run": run, "counters": counters, "calibration": calibration}
    values = {**context.params, **paths, "hardware": hardware}
    require_sound(values, {name for name in values if from_user(context, name)})
    limits, seen = limits_of(slo), seen_of(values)
    load, notes = load_of(values)
    with progress_bar() as report, simulator_shown(report):
        from twophase.advise.advising import advise as weigh

        own = weigh(
            setup_of(values),
            load,
            aim,
            limits,
            shared=0.5 if shared is None else shared,
            acceptance=acceptance,
            report=report,
        )
    from dataclasses import replace

    own = replace(own, notes=(*seen_notes(seen, own), *own.notes, *notes))
    show(own, json=json, plain=plain)
    return 0


def limits_of(text: str | None) -> tuple[tuple[str, float], ...]:
    if text is None:
        return ()
    from twophase.advise.figures import METRICS
    from twophase.errors import InputError
    from twophase.meter.goodput import slo_of

    found = tuple((each.metric, each.seconds) for each in slo_of(text))
    for metric, _ in found:
        if metric not in METRICS:
            raise InputError(f"--slo {text}: advise judges by {', '.join(METRICS)}, not by {metric}")
    return found


def setup_of(values: dict[str, Any]) -> "Setup":
    from twophase.advise.setup import Setup
    from twophase.cost.parallel import Plan
    from twophase.hardware.catalogue import load_accelerator
    from twophase.simulate.pools import Sizes
    from twophase.simulate.run import preset_of

    preset, policy = preset_of(
        values["preset"] if values["policy"] is None else values["policy"], values["preset"]
    )
    return Setup(
        model=loaded(values["model"], values["weights"]),
        accelerator=load_accelerator(values["gpu"], values["hardware"]),
        preset=preset,
        policy=policy,
        plan=Plan(values["tp"], values["pp"], values["ep"], values["dp"]),
        kv=values["kv"],
        sizes=Sizes(
            max_tokens=values["max_tokens_per_pass"],
            max_sequences=values["max_sequences"],
            context_length=values["context_length"],
            blocks=values["kv_blocks"],
            kv_pool_bytes=bytes_of("--kv-memory", values["kv_memory"]),
            prefix_cache=values["prefix_cache"],
        ),
        drafts=values["speculate"],
        acceptance=values["acceptance"] if values["speculate"] else 0.0,
        replicas=values["replicas"],
        provenance=values["clock"],
        calibration=calibration_of(values["calibration"]),
    )


def show(own: "Advising", *, json: bool, plain: bool) -> None:
    if json:
        from twophase.report.advice_json import to_json

        print(to_json(own))
        return
    from twophase.report import advice_text as render

    if plain or not sys.stdout.isatty():
        print(render.plain(own))
    else:
        render.render(own)
