"""twophase simulate: serve a workload in simulated time, by the engine's own scheduler."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
)
from twophase.cli.load_options import (
    ArrivalsOption,
    BurstinessOption,
    OutputTokensOption,
    PrefixesOption,
    PrefixTokensOption,
    PromptTokensOption,
    SkipBadOption,
    SpeedupOption,
    TurnsOption,
)
from twophase.cli.options import JsonOption, PlainOption, SloOption, from_user, require_writable, write
from twophase.cli.serving_options import (
    AcceptanceOption,
    CalibrationOption,
    ClockOption,
    KvMemoryOption,
    PrefixCacheOption,
    PresetOption,
    RouterOption,
)
from twophase.cli.simulate_options import require_sound, split_of, workload_of
from twophase.cli.simulate_run import simulated

if TYPE_CHECKING:
    from twophase.meter.goodput import Limit
    from twophase.report.simulation import Simulation


def simulate(
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
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            "--workload",
            metavar="FILE",
            help="Replay arrivals: Azure, BurstGPT, Mooncake, ServeGen's folder, a table, a run of ours.",
        ),
    ] = None,
    speedup: SpeedupOption = 1.0,
    spread_arrivals: Annotated[
        bool, typer.Option("--spread-arrivals", help="Where a trace's times come in steps, spread them.")
    ] = False,
    skip_bad: SkipBadOption = False,
    rate: Annotated[float | None, typer.Option(metavar="R", help="Requests per second.")] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", help="So many clients, each asks again when it was answered."),
    ] = None,
    arrivals: ArrivalsOption = "poisson",
    burstiness: BurstinessOption = 1.0,
    ramp: Annotated[
        float, typer.Option(metavar="SECONDS", help="Over which the rate grows from nothing.")
    ] = 0.0,
    requests: Annotated[
        int | None, typer.Option(metavar="N", help="How many.", show_default="1000, or all of a trace")
    ] = None,
    duration: Annotated[float | None, typer.Option(metavar="SECONDS", help="No request comes later.")] = None,
    prompt_tokens: PromptTokensOption = "512",
    output_tokens: OutputTokensOption = "128",
    lengths: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw prompts and outputs together from a trace's rows."),
    ] = None,
    prefix_tokens: PrefixTokensOption = 0,
    prefixes: PrefixesOption = 1,
    turns: TurnsOption = 1,
    think: Annotated[
        float, typer.Option(metavar="SECONDS", help="From an answer's end to the next turn.")
    ] = 0.0,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Who goes first: decode-first, prefill-first, static, priority, shortest-first ...",
            show_default="the preset's",
        ),
    ] = None,
    preset: PresetOption = "vllm",
    max_sequences: Annotated[
        int | None,
        typer.Option(
            *("--max-sequences", "--max-num-seqs"),
            metavar="N",
            help="Sequences that run at once.",
            show_default="the preset's",
        ),
    ] = None,
    max_tokens_per_pass: Annotated[
        int | None,
        typer.Option(
            *("--max-tokens-per-pass", "--max-num-batched-tokens", "--max-tokens"),
            metavar="N",
            help="Budget of a pass.",
            show_default="the preset's",
        ),
    ] = None,
    context_length: Annotated[
        int | None,
        typer.Option(
            *("--context-length", "--max-model-len"),
            metavar="N",
            help="The longest sequence.",
            show_default="the model's",
        ),
    ] = None,
    block_size: Annotated[int, typer.Option(metavar="N", help="Tokens of a KV block.")] = 16,
    kv_blocks: Annotated[
        int | None, typer.Option(metavar="N", help="KV blocks.", show_default="as fit counts them")
    ] = None,
    kv_memory: KvMemoryOption = None,
    prefix_cache: PrefixCacheOption = True,
    speculate: Annotated[int, typer.Option(metavar="K", help="Drafts that each decode pass verifies.")] = 0,
    acceptance: AcceptanceOption = 0.7,
    replicas: Annotated[int, typer.Option(metavar="N", help="Engines behind a router.")] = 1,
    router: RouterOption = "round-robin",
    pool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GPU[:N][,tp=N][,role=prefill|decode]",
            help="N replicas of this kind; once for each kind, in place of --gpu, --tp and --replicas.",
            show_default=False,
        ),
    ] = None,
    disaggregate: Annotated[
        str | None,
        typer.Option(metavar="P:D", help="So many prefill and decode replicas; the KV cache is sent."),
    ] = None,
    prefill_tp: Annotated[
        int | None, typer.Option(metavar="N", help="Of prefill replicas.", show_default="--tp")
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|GBps",
            help="Over which a replica sends: 50, ndr, 400gbe, pcie5, intra ...",
            show_default="the devices' own between nodes",
        ),
    ] = None,
    no_overlap: Annotated[
        bool, typer.Option("--no-overlap", help="Send when all layers are computed, not one by one.")
    ] = False,
    clock: ClockOption = None,
    calibration: CalibrationOption = None,
    slo: SloOption = None,
    max_time: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop at this moment of simulated time.")
    ] = None,
    seed: Annotated[str, typer.Option(help="Of arrivals, lengths and drafts.")] = "0",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Keep the run, for `twophase report`.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="PATH", help="Write the run's page.")] = None,
    json: JsonOption = False,
    plain: PlainOption = False,
) -> int:
    """Serve a workload in simulated time: the engine's scheduler, on a clock made of arithmetic.

    The same options give the same run on any machine. The exit status is 1 where --max-time cut it off.
    """
    paths = {"trace": trace, "lengths": lengths, "hardware": hardware, "calibration": calibration}
    values = {**context.params, **paths, "pool": pool or []}
    require_sound(values, {name for name in values if from_user(context, name)})
    split = split_of(disaggregate) if disaggregate is not None else None
    if html is not None:
        require_writable("--html", html)
    if out is not None:
        from twophase.cli.bench_end import keeping_place
        from twophase.meter.tables import polars

        polars()  # before the simulation whose requests it is to keep, not after it
        keeping_place(out)
    limits: tuple[Limit, ...] = ()
    if slo is not None:
        from twophase.meter.goodput import slo_of
        from twophase.report.simulation_summary import require_known

        limits = slo_of(slo)
        require_known(limits)
    began = time.perf_counter()
    run, compiled = simulated(values, workload_of(values), split)
    took = time.perf_counter() - began

    from twophase.report.simulation import simulation_of

    how = preset if policy is None else f"{policy} of {preset}"
    routed = f", {router}" if sum(each.replicas for each in run.pools) > 1 else ""
    title = Path(model).name if "/" in model else model
    own = simulation_of(run, title, f"{how}{routed}", limits, open_loop=concurrency is None)
    if out is not None:
        from twophase.report.simulation_folder import keep

        keep(out, own, {name: plain_value(value) for name, value in values.items()})
    if html is not None:
        from twophase.report.simulation_html import page

        write("--html", html, page(own).encode())
    show(own, json=json, plain=plain)
    if not json:
        say_end(own, took, compiled, out, html)
    return 1 if own.summary.of("truncated") or run.late else 0


def show(own: "Simulation", *, json: bool, plain: bool) -> None:
    if json:
        from twophase.report.simulation_json import to_json

        print(to_json(own))
        return
    from twophase.report import simulation_text as render

    if plain or not sys.stdout.isatty():
        print(render.plain(own))
    else:
        render.render(own)


def say_end(own: "Simulation", took_s: float, compiled: bool, out: Path | None, html: Path | None) -> None:
    """On stderr: it differs from run to run."""
    from twophase.units import duration, plural

    if out is not None:
        print(f"\nThe run: {out}")
    if html is not None:
        print(f"\nThe page: {html}")
    run = own.run
    first = ", the loops' compilation included" if compiled else ""
    print(
        f"twophase: {plural(len(run.workload), 'request')}, {duration(run.ended_s)} simulated in "
        f"{duration(took_s)}{first}",
        file=sys.stderr,
    )


def plain_value(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(value)
    return value if isinstance(value, int | float | str | bool | None) else str(value)
