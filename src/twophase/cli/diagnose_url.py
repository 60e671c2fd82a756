"""twophase diagnose URL: where the time of a server's requests goes, measured from outside."""

import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twophase.cli.bench_end import keeping_place
from twophase.cli.needs import needs
from twophase.cli.options import positive, require_one_form, require_writable, write
from twophase.cli.progress import progress_bar
from twophase.ending import INTERRUPTED
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.meter.floors import Floors
    from twophase.report.bench_curves import ServerDiagnosis

BROKEN = 1

OfServerOption = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="URL: its model, to ask for and to know its floors by."),
]
ServerGpuOption = Annotated[
    str | None, typer.Option("--gpu", metavar="NAME", help="URL: what serves it: floors stand beside.")
]
ApiKeyOption = Annotated[
    str | None,
    typer.Option(envvar=["TWOPHASE_API_KEY", "OPENAI_API_KEY"], help="URL: sent as a bearer token."),
]
HeaderOption = Annotated[
    list[str] | None, typer.Option(metavar="'K: V'", help="URL: a header of each request.")
]
EndpointOption = Annotated[str, typer.Option(help="URL: auto, chat or completions.")]
LongestOption = Annotated[
    int | None,
    typer.Option(
        metavar="TOKENS", help="URL: of prompts.", show_default="the server's window, 65536 at most"
    ),
]
MostBatchOption = Annotated[int, typer.Option(metavar="N", help="URL: sequences that decode together.")]
OutOption = Annotated[Path | None, typer.Option(metavar="DIR", help="URL: keep the run there.")]
PlainOption = Annotated[bool, typer.Option("--plain", help="URL: plain text on a terminal, too.")]


@dataclass(frozen=True, slots=True)
class ServerAsked:
    """What the user says of a server and of the floors that it is held against."""

    url: str
    model: str | None
    gpu: str | None
    hardware: Path | None
    weights: str | None
    kv: str
    plan: tuple[int, int, int, int]  # tp, pp, ep, dp
    endpoint: str
    api_key: str | None
    header: list[str]
    timeout_s: float
    longest: int | None
    most_batch: int
    verify_tls: bool = True


def is_url(name: str | None) -> bool:
    return name is not None and name.lower().startswith(("http://", "https://"))


def diagnose_url(
    asked: ServerAsked,
    *,
    request: tuple[int, int],
    budget_s: float,
    html: Path | None,
    out: Path | None,
    as_json: bool,
    plain: bool,
) -> int:
    """Measure TTFT against prompt length and ITL against batch and context, and judge."""
    require_sound(asked, html, out, as_json=as_json, plain=plain)
    with needs("meter"):
        import httptools  # noqa: F401
    floors, why_none = floors_of(asked)
    own = measured(asked, floors, why_none, request, budget_s)
    lost: InputError | None = None
    try:  # before it is shown to somebody who may have gone; what can't be kept is shown all the same
        keep(own, asked, request, budget_s, html, out)
    except InputError as error:
        lost = error
    show(own, as_json=as_json, plain=plain)
    if lost is not None:
        sys.stdout.flush()
        raise lost
    if not as_json:
        for name, path in (("page", html), ("run", out)):
            if path is not None:
                print(f"\nThe {name}: {path}")
    if own.run.partial == "interrupted":
        return INTERRUPTED
    return BROKEN if own.run.partial or own.curves.failed else 0


def keep(
    own: "ServerDiagnosis",
    asked: ServerAsked,
    request: tuple[int, int],
    budget_s: float,
    html: Path | None,
    out: Path | None,
) -> None:
    if out is not None:
        from twophase.meter.run_folder import save
        from twophase.report.bench_curves_html import page

        arguments = {"verb": "diagnose", "url": asked.url, "model": asked.model, "gpu": asked.gpu}
        arguments |= {"request": f"{request[0]}:{request[1]}", "budget": str(budget_s)}
        save(out, own.run, arguments, lambda _: page(own))
    if html is not None:
        from twophase.report.bench_curves_html import page

        write("--html", html, page(own).encode())


def require_sound(
    asked: ServerAsked, html: Path | None, out: Path | None, *, as_json: bool, plain: bool
) -> None:
    positive("--timeout", asked.timeout_s)
    require_one_form(as_json, plain)
    if asked.endpoint not in ("auto", "chat", "completions"):
        raise InputError(f"--endpoint {asked.endpoint}: it is auto, chat or completions")
    if asked.longest is not None and not 256 <= asked.longest <= 10_000_000:
        raise InputError(f"--longest {asked.longest}: give 256 tokens or more, so that a curve can be seen")
    if not 1 <= asked.most_batch <= 1024:
        raise InputError(f"--most-batch {asked.most_batch}: give 1 to 1024")
    if html is not None:
        require_writable("--html", html)
    if out is not None:
        keeping_place(out)


def floors_of(asked: ServerAsked) -> tuple["Floors | None", str]:
    """By --model and --gpu; None, and what is missing, where they don't tell."""
    if asked.gpu is None:
        return None, "Floors, MFU and MBU stand beside where --gpu NAME is given."
    if asked.model is None:
        return None, ""  # the server may name it
    return _floors(asked, asked.model), ""


def _floors(asked: ServerAsked, model: str) -> "Floors":
    from twophase.cli.deployment import deployment_of, loaded
    from twophase.cost.parallel import Plan
    from twophase.hardware.catalogue import load_accelerator
    from twophase.meter.floors import Floors
    from twophase.model.formats import KV_FORMATS

    assert asked.gpu is not None
    if asked.kv not in KV_FORMATS:
        raise InputError(f"--kv {asked.kv}: it is one of {', '.join(KV_FORMATS)}")
    accelerator = load_accelerator(asked.gpu, asked.hardware)
    kv: Any = asked.kv
    return Floors(deployment_of(loaded(model, asked.weights), kv, None, Plan(*asked.plan)), accelerator)


def measured(
    asked: ServerAsked,
    floors: "Floors | None",
    why_none: str,
    request: tuple[int, int],
    budget_s: float,
) -> "ServerDiagnosis":
    from twophase.cli.bench_options import headers_of
    from twophase.meter.capabilities import Asked
    from twophase.meter.curve_run import CurvePlan, measure_server
    from twophase.meter.exchange import run
    from twophase.meter.own_error import own_error
    from twophase.meter.verdict import judge
    from twophase.report.bench_curves import ServerDiagnosis

    endpoint: Any = None if asked.endpoint == "auto" else asked.endpoint
    plan = CurvePlan(
        asked=Asked(
            url=asked.url,
            model=asked.model,
            endpoint=endpoint,
            headers=headers_of(asked.header, asked.api_key),
            verify_tls=asked.verify_tls,
            timeout_s=asked.timeout_s,
        ),
        budget_s=budget_s,
        longest_prompt=asked.longest,
        most_batch=asked.most_batch,
        seed=secrets.token_hex(4),
    )
    with progress_bar() as report:
        load, curves = run(lambda: measure_server(plan, report))
    notes = [why_none] if why_none else []
    if floors is None and asked.gpu is not None:
        floors, note = by_its_own_name(asked, load.target.model)
        notes += [note] if note else []
    finished = [each for each in load.replies if each.outcome == "finished"]
    return ServerDiagnosis(
        run=load,
        curves=curves,
        verdict=judge(curves, floors, *request),
        error=own_error(finished, "sent", load.lag),
        notes=tuple(notes),
    )


def by_its_own_name(asked: ServerAsked, served: str) -> tuple["Floors | None", str]:
    """Floors of the model that the server names, where the catalogue has it."""
    for name in dict.fromkeys((served, served.rsplit("/", 1)[-1])):
        try:
            return _floors(asked, name), f"Floors are those of {name}, as the server names its model."
        except InputError:
            continue
    return None, f"No floors: the catalogue has no {served}; give --model NAME, a config.json or its folder."


def show(own: "ServerDiagnosis", *, as_json: bool, plain: bool) -> None:
    if as_json:
        from twophase.report.bench_curves_json import to_json

        print(to_json(own))
        return
    from twophase.report import bench_curves
    from twophase.report.bench_terminal import show as show_blocks

    if plain or not sys.stdout.isatty():
        print(bench_curves.plain(own))
    else:
        show_blocks(bench_curves.blocks(own))
