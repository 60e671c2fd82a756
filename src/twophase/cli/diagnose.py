"""twophase diagnose: where the time of a real request goes on this machine, and what would help."""

from pathlib import Path
from typing import Annotated

import typer

from twophase.cli.engine import KeptKVOption, KeptWeightsOption, compiling_shown, kept_formats
from twophase.cli.needs import needs
from twophase.cli.options import (
    ComputeOption,
    JsonOption,
    LoadOption,
    ModelArgument,
    ThreadsOption,
    positive,
    request_of,
    require_writable,
    threads_of,
    write,
)
from twophase.cli.progress import progress_bar


def diagnose(
    model: ModelArgument = None,
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
) -> None:
    """Measure prefill and decode of a model in our own engine, beside this machine's roofs, and judge.

    Without MODEL: the embedded default, Gemma 3 270M.
    """
    prompt_tokens, output_tokens = request_of(request)
    positive("--budget", budget)
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


def require_page(path: Path) -> None:
    """InputError where the page could not be drawn or written, before anything is measured."""
    from twophase.report.vega import require_charts

    require_charts()
    require_writable("--html", path)
