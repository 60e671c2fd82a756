"""twophase bench: load an OpenAI-compatible server, and say what its users would have seen."""

import math
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twophase.cli.meter_room import meter_room
from twophase.cli.options import JsonOption, positive, warn
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.meter.plan import Plan
    from twophase.meter.records import LoadRun

INTERRUPTED, BROKEN = 130, 1
OWN_LENGTHS = ("prompt_tokens", "prefix_tokens", "prefixes")


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
    arrivals: Annotated[
        Literal["poisson", "constant", "gamma"], typer.Option(help="How requests of a rate come.")
    ] = "poisson",
    burstiness: Annotated[
        float, typer.Option(metavar="B", help="Of gamma arrivals: below 1 bursts, above 1 evens out.")
    ] = 1.0,
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
    speedup: Annotated[float, typer.Option(metavar="FACTOR", help="Replay a trace so much faster.")] = 1.0,
    requests: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many, of each level.", show_default="10 for each in flight"),
    ] = None,
    duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Send no request later, at each level.")
    ] = None,
    prompt_tokens: Annotated[
        str, typer.Option(metavar="LENGTH", help="512, normal:512,64, lognormal:512,0.5, uniform:128,1024.")
    ] = "512",
    output_tokens: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="In the same forms.", show_default="128")
    ] = None,
    prefix_tokens: Annotated[
        int, typer.Option(metavar="N", help="A prefix that prompts share, in front of their own tokens.")
    ] = 0,
    prefixes: Annotated[int, typer.Option(metavar="K", help="How many different ones.")] = 1,
    turns: Annotated[int, typer.Option(metavar="N", help="Turns of each conversation.")] = 1,
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
    slo: Annotated[
        str | None, typer.Option(metavar="LIMITS", help="Goodput under ttft=500ms,tpot=30ms.")
    ] = None,
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
    plain: Annotated[bool, typer.Option("--plain", help="Plain text on a terminal, too.")] = False,
) -> int:
    """Measure a server under load: latencies, throughput, goodput, and the meter's own error.

    Each run is kept as a folder, for `twophase report`. The exit status is 1 where it ended early.
    """
    arguments = {name: value for name, value in context.params.items() if name not in ("api_key", "header")}
    if json and plain:
        raise InputError("give one of --json and --plain")
    if sum(each is not None for each in (concurrency, rate, trace)) > 1:
        raise InputError("give one of --concurrency, --rate and --trace")
    for option, value in {
        "--rate": rate,
        "--duration": duration,
        "--speedup": speedup,
        "--timeout": timeout,
    }.items():
        if value is not None:
            positive(option, value)
    positive("--burstiness", burstiness)
    counts = {"--concurrency": concurrency, "--requests": requests, "--turns": turns, "--prefixes": prefixes}
    for option, number in (counts | {"--workers": workers, "--gpus": gpus}).items():
        if number is not None and not 1 <= number <= 100_000_000:
            raise InputError(f"{option} {number}: it must be a whole number, 1 or more")
    for option, seconds in {"--ramp": ramp, "--grace": grace}.items():
        if seconds is not None and not 0 <= seconds < math.inf:
            raise InputError(f"{option} {seconds:g}: give seconds, 0 or more")
    if (warmup or 0) < 0 or not 0 <= prefix_tokens <= 10_000_000:
        raise InputError("--warmup and --prefix-tokens are whole numbers, 0 or more")
    given = {name for name in context.params if from_user(context, name)}
    excluded = (
        (
            "trace",
            (
                "sweep",
                "dataset",
                "turns",
                "prompt_tokens",
                "output_tokens",
                "prefix_tokens",
                "arrivals",
                "ramp",
            ),
        ),
        ("dataset", OWN_LENGTHS),
    )
    for one, others in excluded:
        if one in given and (clash := [name for name in others if name in given]):
            raise InputError(
                f"--{one} and --{clash[0].replace('_', '-')} don't go together: give one of them"
            )
    if rate is None and given & {"arrivals", "burstiness"}:
        raise InputError("--arrivals and --burstiness say how requests of a --rate come: give --rate, too")
    if "burstiness" in given and arrivals != "gamma":
        raise InputError("--burstiness shapes gamma arrivals: give --arrivals gamma, too")
    if "prefixes" in given and not prefix_tokens:
        raise InputError("--prefixes says how many prefixes there are: give their --prefix-tokens, too")
    if speedup != 1.0 and trace is None:
        raise InputError("--speedup is for replays: give --trace FILE, too")

    with meter_room():
        from twophase.meter.arrivals import Arrivals
        from twophase.meter.capabilities import Asked
        from twophase.meter.datasets import read_dataset
        from twophase.meter.goodput import slo_of
        from twophase.meter.lengths import lengths_of
        from twophase.meter.level import Limits
        from twophase.meter.plan import Plan
        from twophase.meter.traces import read_trace

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
        trace=read_trace(trace, requests, speedup) if trace is not None else None,
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
    return finish(run, plan, arguments | {"seed": sown}, folder, gpus, definitions, json=json, plain=plain)


def from_user(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def first_concurrency(concurrency: int | None, sweep: bool) -> int:
    return (1 if sweep else 8) if concurrency is None else concurrency


def headers_of(given: list[str], api_key: str | None) -> tuple[tuple[str, str], ...]:
    found = [("Authorization", f"Bearer {api_key}")] if api_key else []
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not name.strip():
            raise InputError(f"--header {name}: give it as 'Name: value'")
        found.append((name.strip(), value.strip()))
    return tuple(found)


def fields_of(body: str | None) -> tuple[tuple[str, str], ...]:
    """Each with its value as JSON."""
    from json import dumps, loads

    if body is None:
        return ()
    try:
        fields = loads(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"--body {body}: give a JSON object, like '{{\"top_p\": 0.9}}'")
    return tuple((name, dumps(value)) for name, value in fields.items())


def counter_of(path: Path | None) -> Callable[[str], int] | None:
    """A local tokenizer's count of a text."""
    if path is None:
        return None
    from twophase.cli.engine import engine_room

    with engine_room():
        from twophase.engine.tokenizer import load_tokenizer
    if not os.path.exists(path):
        raise InputError(f"--tokenizer {path} does not exist: give a Hugging Face directory or a .gguf file")
    tokenizer = load_tokenizer(path)
    return lambda text: len(tokenizer.encode(text, add_bos=False))


def keeping_place(out: Path | None) -> Path | None:
    """Where the run goes if the user named a place, which must be free before anything is measured."""
    from importlib.util import find_spec

    if find_spec("polars") is None:
        if out is not None:
            raise InputError(
                "--out needs polars: install the extra meter (pip install '.[meter]' in a clone)"
            )
        warn("this run is not kept: polars is not installed (the extra meter has it)")
        return None
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out} is there already: give a folder that is new, or empty")
    return out if out is not None else Path("twophase-runs")


def measured(plan: "Plan", count: Callable[[str], int] | None) -> "LoadRun":
    from twophase.cli.load_line import load_line
    from twophase.meter.bench import bench
    from twophase.meter.exchange import run

    with load_line() as show:
        return run(lambda: bench(plan, show, count))


def finish(
    run: "LoadRun",
    plan: "Plan",
    arguments: dict[str, Any],
    folder: Path | None,
    gpus: int | None,
    definitions: str | None,
    *,
    json: bool,
    plain: bool,
) -> int:
    """Keep the run, show it, and say by the exit status whether it is whole."""
    from twophase.meter.definitions import project
    from twophase.meter.summary import summarise
    from twophase.report import bench as render
    from twophase.report import bench_json
    from twophase.report.bench_html import page

    summary = summarise(run, plan.slo, gpus=gpus)
    projected = project(run.replies, definitions, run.target.endpoint) if definitions else ()
    tool = definitions or ""
    if folder is not None:
        folder = folder / name_of(run) if arguments["out"] is None else folder
        keep(folder, run, arguments, lambda run: page(run, summary))
    if json:
        print(bench_json.to_json(run, summary, projected, tool))
    elif plain or not sys.stdout.isatty():
        print(render.plain(run, summary, projected, tool))
    else:
        render.render(run, summary, None, projected, tool)
    if folder is not None and not json:
        print(f"\nThe run: {folder}")
    if run.partial == "interrupted":
        return INTERRUPTED
    return BROKEN if run.partial else 0


def name_of(run: "LoadRun") -> str:
    """Of a run's folder: when, and of which model."""
    model = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in run.target.model)
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}-{model.strip('-.')[-40:]}"


def keep(folder: Path, run: "LoadRun", arguments: dict[str, Any], page: "Callable[[LoadRun], str]") -> None:
    from twophase.meter.run_folder import save

    plain_arguments = {
        name: value if isinstance(value, int | float | str | bool | None) else str(value)
        for name, value in arguments.items()
    }
    save(folder, run, plain_arguments, page)
