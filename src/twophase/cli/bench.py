"""twophase bench: load an OpenAI-compatible server, and say what its users would have seen."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twophase.cli.bench_end import finish, keeping_place
from twophase.cli.bench_options import (
    counter_of,
    fields_of,
    first_concurrency,
    headers_of,
    require_sound,
)
from twophase.cli.load_options import (
    ArrivalsOption,
    BurstinessOption,
    PrefixesOption,
    PrefixTokensOption,
    PromptTokensOption,
    SkipBadOption,
    SpeedupOption,
    TurnsOption,
)
from twophase.cli.needs import needs
from twophase.cli.options import JsonOption, PlainOption, SloOption, from_user

if TYPE_CHECKING:
    from twophase.meter.plan import Plan
    from twophase.meter.records import LoadRun

SECRET = ("api_key", "header")


def bench(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="The server: http://host:port.")],
    *,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="Requests in flight at any time.", show_default="8")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="R", help="Requests per second, whatever the server answers.")
    ] = None,
    arrivals: ArrivalsOption = "poisson",
    burstiness: BurstinessOption = 1.0,
    ramp: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Over which the load grows from nothing.",
            show_default="a request's time; of a rate 0",
        ),
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Double the load until the server is saturated, or misses --slo.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Replay arrivals: Azure, BurstGPT, Mooncake, a table, a run of ours."
        ),
    ] = None,
    speedup: SpeedupOption = 1.0,
    skip_bad: SkipBadOption = False,
    requests: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many, of each level.", show_default="10 for each in flight"),
    ] = None,
    duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Send no request later, at each level.")
    ] = None,
    prompt_tokens: PromptTokensOption = "512",
    output_tokens: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="In the same forms.", show_default="128")
    ] = None,
    prefix_tokens: PrefixTokensOption = 0,
    prefixes: PrefixesOption = 1,
    turns: TurnsOption = 1,
    dataset: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prompts of yours: JSONL, or ShareGPT's JSON.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Size prompts with a local tokenizer, not by two probes."),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Requests before the measured ones.", show_default="one a slot, 8 at most"
        ),
    ] = None,
    slo: SloOption = None,
    definitions: Annotated[
        Literal["vllm", "guidellm", "aiperf", "sglang"] | None,
        typer.Option(help="Show the run by another meter's definitions, too."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to ask for.", show_default="the first one listed")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="What serves it: kept with the run.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="How many: throughput is shown per GPU.")
    ] = None,
    endpoint: Annotated[
        Literal["auto", "chat", "completions"], typer.Option(help="Which of the API's endpoints.")
    ] = "auto",
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar=["TWOPHASE_API_KEY", "OPENAI_API_KEY"], help="Sent as a bearer token.", show_envvar=True
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="'K: V'", help="A header of each request; may be given again.")
    ] = None,
    body: Annotated[
        str | None, typer.Option(metavar="JSON", help="Fields added to each request: '{\"top_p\": 0.9}'.")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept any TLS certificate.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="For one request.")] = 600.0,
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", help="For requests in flight when the duration is over.")
    ] = 30.0,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes that send.", show_default="as the load needs")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Send from the machines of a Ray cluster.")
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(help="Of prompts and arrivals, to repeat a run.", show_default="new each time"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the run is kept.", show_default="twophase-runs/TIME-MODEL"),
    ] = None,
    json: JsonOption = False,
    plain: PlainOption = False,
) -> int:
    """Measure a server under load: latencies, throughput, goodput, and the meter's own error.

    Each run is kept as a folder, for `twophase report`. The exit status is 1 where it ended early,
    or no request finished.
    """
    values = dict(context.params)
    given = {name for name in values if from_user(context, name)}
    require_sound(values, given)

    with needs("meter"):
        from twophase.meter.capabilities import Asked
        from twophase.meter.datasets import read_dataset
        from twophase.meter.goodput import slo_of
        from twophase.meter.level import Limits
        from twophase.meter.plan import Plan
        from twophase.workload.arrivals import Arrivals
        from twophase.workload.lengths import lengths_of
        from twophase.workload.traces import read_trace

    sown = secrets.token_hex(4) if seed is None else seed
    answers = lengths_of("--output-tokens", output_tokens or "128")
    plan = Plan(
        asked=Asked(
            url=url,
            model=model,
            endpoint=None if endpoint == "auto" else endpoint,
            headers=headers_of(header or [], api_key),
            verify_tls=not insecure,
            timeout_s=timeout,
            extra=fields_of(body),
        ),
        prompt=lengths_of("--prompt-tokens", prompt_tokens),
        output=answers,
        concurrency=first_concurrency(concurrency, sweep) if rate is None and trace is None else None,
        arrivals=Arrivals(rate, arrivals, burstiness, ramp or 0.0) if rate is not None else None,
        trace=read_trace(trace, requests, speedup, skip_bad) if trace is not None else None,
        sweep=sweep,
        slo=slo_of(slo) if slo is not None else (),
        requests=requests,
        duration_s=duration,
        dataset=read_dataset(dataset, answers if output_tokens else None, turns, sown) if dataset else None,
        prefix_tokens=prefix_tokens,
        prefixes=prefixes,
        turns=turns,
        warmups=warmup,
        spread_s=ramp,
        seed=sown,
        limits=Limits(timeout, grace),
        workers=workers,
        ray=ray,
    )
    folder = keeping_place(out)
    run = measured(plan, counter_of(tokenizer))
    if gpu is not None:
        run = replace(run, facts=(*run.facts, ("gpu", gpu)))
    kept = {name: value for name, value in values.items() if name not in SECRET} | {"seed": sown}
    return finish(run, plan, kept, folder, gpus, definitions, json=json, plain=plain)


def measured(plan: "Plan", count: Callable[[str], int] | None) -> "LoadRun":
    from twophase.cli.load_line import load_line
    from twophase.meter.bench import bench
    from twophase.meter.exchange import run

    with load_line() as show:
        return run(lambda: bench(plan, show, count))
