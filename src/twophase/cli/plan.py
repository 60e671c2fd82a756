"""twophase plan: the cheapest deployment that keeps an SLO under a load."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twophase.cli.deployment import DescribedModel, HardwareOption, loaded
from twophase.cli.load_options import (
    OutputTokensOption,
    PrefixesOption,
    PrefixTokensOption,
    PromptTokensOption,
    SkipBadOption,
    SpeedupOption,
)
from twophase.cli.options import JsonOption, PlainOption, from_user, require_writable, write
from twophase.cli.plan_options import accelerators_of, numbers_of, prices_of, require_plannable, words_of
from twophase.cli.progress import progress_bar, simulator_shown
from twophase.cli.serving_options import CalibrationOption, RouterOption, calibration_of
from twophase.cli.simulate_options import number_of, require_sound, workload_of

if TYPE_CHECKING:
    from twophase.plan.answer import Answer
    from twophase.plan.question import Question
    from twophase.plan.slo import Slo
    from twophase.workload.workload import Workload

GPUS = "h100-sxm,h200,a100-80gb,l40s,mi300x"
ROUNDED = 1024  # tokens, of the longest sequence
LEAST, MOST, SPANS = 1000, 8000, 4  # requests of a made-up load: several times as long as a request may take


def plan(
    context: typer.Context,
    model: DescribedModel,
    *,
    slo: Annotated[str, typer.Option(metavar="LIMITS", help="ttft=500ms,tpot=30ms; also e2e.")],
    attainment: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the requests, that must keep all limits.")
    ] = 0.9,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", "--workload", metavar="FILE", help="Arrivals and lengths, as for simulate."),
    ] = None,
    speedup: SpeedupOption = 1.0,
    skip_bad: SkipBadOption = False,
    rate: Annotated[float | None, typer.Option(metavar="R", help="Requests per second.")] = None,
    requests: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many.", show_default="1000 or more, or all of a trace"),
    ] = None,
    prompt_tokens: PromptTokensOption = "512",
    output_tokens: OutputTokensOption = "128",
    prefix_tokens: PrefixTokensOption = 0,
    prefixes: PrefixesOption = 1,
    gpus: Annotated[str, typer.Option("--gpus", "--gpu", metavar="A,B", help="Accelerators.")] = GPUS,
    hardware: HardwareOption = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price", metavar="NAME=USD", help="Of one device an hour, in place of the catalogue's."
        ),
    ] = None,
    weights: Annotated[
        str, typer.Option(metavar="A,B", help="Formats of weights; own: the checkpoint's.")
    ] = "own,fp8",
    kv: Annotated[str, typer.Option(metavar="A,B", help="Formats of the KV cache.")] = "bf16,fp8",
    tp: Annotated[
        str, typer.Option("--tp", metavar="A,B", help="Devices that share each layer.")
    ] = "1,2,4,8",
    pp: Annotated[str, typer.Option("--pp", metavar="A,B", help="Pipeline stages.")] = "1,2",
    max_tokens_per_pass: Annotated[
        str, typer.Option("--max-tokens-per-pass", metavar="A,B", help="Budgets of a pass.")
    ] = "2048,8192",
    max_sequences: Annotated[
        str, typer.Option("--max-sequences", metavar="A,B", help="Sequences that run at once.")
    ] = "64,256",
    split: Annotated[
        bool, typer.Option("--split/--no-split", help="Prefill and decode on replicas of their own, too.")
    ] = True,
    preset: Annotated[str, typer.Option(help="Whose scheduler: vllm, sglang, ours.")] = "vllm",
    router: RouterOption = "round-robin",
    context_length: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="The longest sequence that engines take.", show_default="the load's longest"
        ),
    ] = None,
    max_gpus: Annotated[
        int | None, typer.Option(metavar="N", help="At most.", show_default="4 × what the load needs")
    ] = None,
    max_cost: Annotated[float | None, typer.Option(metavar="USD", help="An hour, at most.")] = None,
    calibration: CalibrationOption = None,
    seed: Annotated[str, typer.Option(help="Of arrivals and lengths.")] = "0",
    processes: Annotated[
        int | None, typer.Option(metavar="N", help="At work.", show_default="all cores")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Work on this Ray cluster; local: a Ray here.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Keep what was simulated, and the answer."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what -o holds.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="PATH", help="Write the plan's page.")] = None,
    json: JsonOption = False,
    plain: PlainOption = False,
) -> int:
    """The cheapest accelerators, parallelism, formats, engine options and replicas that keep an SLO.

    Bounds rule out what can't keep it; the rest is simulated in order of cost. The exit status is 1 where
    nothing keeps it.
    """
    values = {**context.params, "trace": trace, "hardware": hardware, "calibration": calibration}
    require_plannable(values)
    if html is not None:
        require_writable("--html", html)
    given = {name for name in values if from_user(context, name)}
    question = question_of(values, given)
    if out is not None:
        from twophase.plan.ledger import open_folder

        open_folder(out, question, resume)
    found = answered(question, out, processes, ray)
    name = Path(model).name if "/" in model else model
    if out is not None:
        from twophase.plan.ledger import ANSWER
        from twophase.report.plan_json import to_json

        (out / ANSWER).write_text(to_json(found, name, model) + "\n", encoding="utf-8")
    if html is not None:
        from twophase.report.plan_html import page

        write("--html", html, page(found, name, model).encode())
    show(found, name, model, json=json, plain=plain)
    return 0 if found.best is not None else 1


def question_of(values: dict[str, Any], given: set[str]) -> "Question":
    from twophase.meter.goodput import slo_of
    from twophase.model.formats import KV_FORMATS
    from twophase.plan.question import Question
    from twophase.plan.slo import slo_from
    from twophase.plan.space import Space
    from twophase.simulate.cluster_books import ROUTERS
    from twophase.simulate.presets import preset_named

    slo = slo_from({each.metric: each.seconds for each in slo_of(values["slo"])}, values["attainment"])
    preset = preset_named(values["preset"])
    words_of("--router", values["router"], ROUTERS)
    space = Space(
        gpus=(),
        weights=tuple("" if each == "own" else each for each in words_of("--weights", values["weights"])),
        kv=words_of("--kv", values["kv"], KV_FORMATS),
        tp=numbers_of("--tp", values["tp"]),
        pp=numbers_of("--pp", values["pp"]),
        max_tokens=numbers_of("--max-tokens-per-pass", values["max_tokens_per_pass"]),
        max_sequences=numbers_of("--max-sequences", values["max_sequences"]),
        disaggregated=values["split"],
    )
    models = {each: loaded(values["model"], each or None) for each in space.weights}
    devices = accelerators_of(values["gpus"], values["hardware"])
    prices = prices_of(values["price"] or [], devices, values["hardware"])
    workload = load_of(values, given, slo)
    longest = int((workload.prompt_tokens + workload.output_tokens).max())
    from dataclasses import replace

    return Question(
        models=models,
        accelerators=devices,
        prices=prices,
        workload=workload,
        slo=slo,
        space=replace(space, gpus=tuple(devices)),
        preset=preset,
        context_length=values["context_length"] or -(-longest // ROUNDED) * ROUNDED,
        router=values["router"],
        calibration=calibration_of(values["calibration"]),
        seed=number_of(values["seed"]),
        max_gpus=values["max_gpus"],
        max_cost=values["max_cost"],
    )


def load_of(values: dict[str, Any], given: set[str], slo: "Slo") -> "Workload":
    """As `simulate` makes it; a rate so long that the load is a steady one."""
    whole = {
        **values,
        **{"arrivals": "poisson", "burstiness": 1.0, "ramp": 0.0, "duration": None, "lengths": None},
        **{"turns": 1, "think": 0.0, "spread_arrivals": False, "max_time": None, "replicas": 1},
        **{"max_sequences": None, "max_tokens_per_pass": None, "kv_blocks": None, "block_size": 16},
        **{"speculate": 0, "acceptance": 0.7, "disaggregate": None, "concurrency": None, "pool": []},
    }
    options = {"max_sequences", "max_tokens_per_pass"}
    require_sound(whole, given - options)
    made = workload_of(whole)
    if values["trace"] is not None or values["requests"] is not None:
        return made
    allowed = min(slo.ttft_s + float(made.output_tokens.mean()) * slo.tpot_s, slo.e2e_s)
    if not allowed < float("inf"):
        return made
    wanted = int(min(max(SPANS * values["rate"] * allowed, LEAST), MOST))
    return made if wanted <= len(made) else workload_of({**whole, "requests": wanted})


def answered(question: "Question", out: Path | None, processes: int | None, ray: str | None) -> "Answer":
    from twophase.hardware.cores import cores
    from twophase.plan.answer import answer
    from twophase.plan.ledger import Ledger
    from twophase.plan.workers import local, on_ray
    from twophase.simulate.rehearsal import kept, rehearse

    processes = processes or cores()
    working = on_ray(question, ray) if ray is not None else local(question, processes)
    with progress_bar() as report, simulator_shown(report):
        if ray is None and processes > 1 and not kept():
            rehearse()
        with working as work:
            return answer(question, work, Ledger(work, out), report)


def show(own: "Answer", name: str, model: str, *, json: bool, plain: bool) -> None:
    if json:
        from twophase.report.plan_json import to_json

        print(to_json(own, name, model))
        return
    from twophase.report import plan_text as render

    if plain or not sys.stdout.isatty():
        print(render.plain(own, name, model))
    else:
        render.render(own, name, model)
