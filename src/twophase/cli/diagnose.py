"""twophase diagnose: where the time of a real request goes on this machine, and what would help."""

from pathlib import Path
from typing import Annotated

import typer

from twophase.cli.deployment import DpOption, EpOption, HardwareOption, PpOption, TpOption
from twophase.cli.diagnose_url import (
    ApiKeyOption,
    EndpointOption,
    HeaderOption,
    LongestOption,
    MostBatchOption,
    OfServerOption,
    OutOption,
    PlainOption,
    ServerAsked,
    ServerGpuOption,
    diagnose_url,
    is_url,
)
from twophase.cli.engine import KeptKVOption, KeptWeightsOption, kept_formats
from twophase.cli.needs import needs
from twophase.cli.options import (
    ComputeOption,
    JsonOption,
    LoadOption,
    ThreadsOption,
    positive,
    request_of,
    require_writable,
    threads_of,
    write,
)
from twophase.cli.progress import compiling_shown, progress_bar
from twophase.errors import InputError

OF_MODELS = {"load": "--load", "compute": "--compute", "threads": "--threads"}
OF_SERVERS = {
    **{"of_server": "--model", "gpu": "--gpu", "hardware": "--hardware", "endpoint": "--endpoint"},
    **{"tp": "--tp", "pp": "--pp", "ep": "--ep", "dp": "--dp", "header": "--header", "timeout": "--timeout"},
    **{"longest": "--longest", "most_batch": "--most-batch", "out": "--out", "plain": "--plain"},
    **{"api_key": "--api-key", "insecure": "--insecure"},
}


def diagnose(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL|URL]",
            help="A Hugging Face directory, a GGUF file, a catalogue name; or a server's http://host:port.",
            show_default=False,
        ),
    ] = None,
    *,
    load: LoadOption = None,
    compute: ComputeOption = "bf16",
    weights: KeptWeightsOption = None,
    kv: KeptKVOption = "bf16",
    request: Annotated[
        str, typer.Option(metavar="IN:OUT", help="The reference request, in tokens.")
    ] = "2000:500",
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="About how long to measure.")] = 60.0,
    threads: ThreadsOption = None,
    html: Annotated[Path | None, typer.Option(metavar="PATH", help="Write a page with charts, too.")] = None,
    as_json: JsonOption = False,
    of_server: OfServerOption = None,
    gpu: ServerGpuOption = None,
    hardware: HardwareOption = None,
    tp: TpOption = 1,
    pp: PpOption = 1,
    ep: EpOption = 1,
    dp: DpOption = 1,
    endpoint: EndpointOption = "auto",
    api_key: ApiKeyOption = None,
    header: HeaderOption = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="URL: for one request.")] = 600.0,
    insecure: Annotated[bool, typer.Option("--insecure", help="URL: accept any TLS certificate.")] = False,
    longest: LongestOption = None,
    most_batch: MostBatchOption = 16,
    out: OutOption = None,
    plain: PlainOption = False,
) -> int:
    """Measure prefill and decode, and judge: a model in our own engine here, or a server at a URL.

    Without MODEL: the embedded default, Gemma 3 270M, beside this machine's roofs.
    """
    prompt_tokens, output_tokens = request_of(request)
    positive("--budget", budget)
    given = {name for name in context.params if given_by_user(context, name)}
    require_belonging(given, OF_MODELS if is_url(model) else OF_SERVERS, url=is_url(model))
    if model is not None and is_url(model):
        asked = ServerAsked(
            url=model,
            model=of_server,
            gpu=gpu,
            hardware=hardware,
            weights=weights,
            kv=kv,
            plan=(tp, pp, ep, dp),
            endpoint=endpoint,
            api_key=api_key,
            header=header or [],
            timeout_s=timeout,
            longest=longest,
            most_batch=most_batch,
            verify_tls=not insecure,
        )
        size = (prompt_tokens, output_tokens)
        return diagnose_url(
            asked, request=size, budget_s=budget, html=html, out=out, as_json=as_json, plain=plain
        )
    cores = threads_of(threads)
    if html is not None:
        require_page(html)
    with needs("engine"):
        from twophase.diagnose import diagnose as run
        from twophase.engine.open import find_model, load_model, require_window

    kept_weights, kept_kv = kept_formats(weights, kv, compute)
    with progress_bar() as report, compiling_shown(report):
        found = find_model(model, load, compute, kept_weights)
        require_window(found.spec, prompt_tokens, output_tokens)
        opened = load_model(found, lambda share: report("loading weights", share))
        diagnosis = run(
            opened,
            kv=kept_kv,
            budget_s=budget,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            threads=cores,
            report=report,
        )
    if as_json:
        from twophase.report.diagnosis_json import to_json

        print(to_json(diagnosis))
    else:
        from rich.console import Console

        from twophase.report.diagnosis_text import render

        render(diagnosis, Console())
    if html is not None:
        from twophase.report.diagnosis_html import page

        write("--html", html, page(diagnosis).encode())
        if not as_json:
            print(f"\nThe page: {html}")
    return 0


def given_by_user(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def require_belonging(given: set[str], others: dict[str, str], *, url: bool) -> None:
    """InputError for an option that the other form of the verb has, rather than to ignore it."""
    for name, option in others.items():
        if name in given:
            form = "a model that runs here" if url else "a server's URL"
            raise InputError(f"{option} is for {form}: leave it out, or give that")


def require_page(path: Path) -> None:
    """InputError where the page could not be drawn or written, before anything is measured."""
    from twophase.report.vega import require_charts

    require_charts()
    require_writable("--html", path)
