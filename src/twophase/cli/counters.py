"""twophase counters: which phase dominates in production, from an engine's own counters."""

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twophase.cli.counters_options import OF_PROMETHEUS, OF_SERVERS, headers_of, require_sound, seconds_of
from twophase.cli.deployment import KV, HardwareOption, KVOption, TpOption, WeightsOption
from twophase.cli.options import JsonOption, PlainOption, from_user, positive, require_one_form
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.counters.fetch import Target
    from twophase.counters.prior_type import Prior
    from twophase.counters.reading import Beside, Reading


LONGEST_S = 86_400


def counters(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(metavar="[URL|FILE]", help="A server, or a page of its /metrics.", show_default=False),
    ] = None,
    second: Annotated[
        str | None,
        typer.Argument(metavar="[FILE2]", help="A later page of the same server.", show_default=False),
    ] = None,
    *,
    interval: Annotated[
        str, typer.Option(metavar="TIME", help="URL: between its two pages, like 30s or 5m.")
    ] = "30s",
    watch: Annotated[
        bool, typer.Option("--watch", help="URL: a live view, a window each interval, until Ctrl-C.")
    ] = False,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS", help="Files: the time between them.", show_default="as they say themselves"
        ),
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask a Prometheus server instead.", show_default=False)
    ] = None,
    query_window: Annotated[str, typer.Option(metavar="TIME", help="Prometheus: the last so long.")] = "1h",
    match: Annotated[
        str, typer.Option(metavar="LABELS", help='Prometheus: of these alone, like namespace="prod".')
    ] = "",
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME|PATH", help="The model, to know its floors.", show_default="the page's"),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The accelerator, to know its floors.", show_default=False),
    ] = None,
    hardware: HardwareOption = None,
    weights: WeightsOption = None,
    kv: KVOption = "bf16",
    tp: TpOption = 1,
    curves: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What `diagnose URL --json` measured of this server."),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar=["TWOPHASE_API_KEY"], help="Sent as a bearer token.", show_default=False),
    ] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="'K: V'", help="Of each request.")] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="For an answer.")] = 10.0,
    json: JsonOption = False,
    plain: PlainOption = False,
) -> int | None:
    """Tell prefill from decode in production: tokens, times and GPU time, from an engine's own counters."""
    require_one_form(json, plain)
    positive("--timeout", timeout)
    if timeout > LONGEST_S:
        raise InputError(f"--timeout {timeout:g}: a day at most, {LONGEST_S:,} s")
    given = {name for name in (*OF_PROMETHEUS, *OF_SERVERS) if from_user(context, name)}
    between_s = seconds_of("--interval", interval)
    window_s = None if window is None else seconds_of("--window", window)
    asked_s = seconds_of("--query-window", query_window)
    require_sound(source, second, prometheus, window, given)

    from twophase.counters.calibrated import read_curves
    from twophase.counters.fetch import target
    from twophase.counters.reading import Beside
    from twophase.counters.source import is_url

    headers = headers_of(header or [], api_key)
    beside = Beside(curves=read_curves(curves) if curves else None)
    if gpu is not None or model is not None:
        _require_known(gpu, model, hardware)

    @cache  # in a live view the same model comes again and again
    def prior(name: str) -> "Prior | None":
        return _prior(model or name, gpu, hardware, weights, kv, tp, stated=model is not None)

    beside = Beside(beside.curves, prior if gpu is not None else None)
    if prometheus is not None:
        show(_of_prometheus(target(prometheus, headers, timeout), asked_s, match, beside), json, plain)
        return None
    if not is_url(source or ""):
        show(_of_files(source or "", second, window_s, beside), json, plain)
        return None
    return _of_server(target(source or "", headers, timeout), between_s, watch, beside, json, plain)


def _require_known(gpu: str | None, model: str | None, hardware: Path | None) -> None:
    """Before anything is waited for."""
    if gpu is None:
        raise InputError("--model gives floors on an accelerator: give --gpu, too")
    from twophase.hardware.catalogue import load_accelerator
    from twophase.model.catalogue import load_model

    load_accelerator(gpu, hardware)
    if model is not None:
        load_model(model)


def _prior(
    name: str, gpu: str | None, hardware: Path | None, weights: str | None, kv: KV, tp: int, stated: bool
) -> "Prior | None":
    """None where the page's own name of its model says nothing to the catalogue."""
    from twophase.cli.deployment import deployment_of, loaded
    from twophase.cost.parallel import Plan
    from twophase.counters.prior_type import Prior
    from twophase.hardware.catalogue import load_accelerator

    if gpu is None or not name:
        return None
    try:
        served = loaded(name, weights)
    except InputError:
        if stated:
            raise
        return None
    return Prior(deployment_of(served, kv, None, Plan(tp)), load_accelerator(gpu, hardware))


def _of_files(first: str, second: str | None, seconds: float | None, beside: "Beside") -> "list[Reading]":
    from twophase.counters.reading import of_iterations, read_pair
    from twophase.counters.source import read_file

    before = read_file(first)
    if second is not None:
        return read_pair(before, read_file(second), seconds, beside)
    if before.page is None:
        return [of_iterations(before.source, before.iterations, seconds, before.notes)]
    raise InputError(
        f"{first}: one page tells what was since the start, not what is now: give a later page, too, or the "
        "server's URL (http://...)"
    )


def _of_prometheus(own: "Target", seconds: float, match: str, beside: "Beside") -> "list[Reading]":
    from twophase.counters.prometheus import prometheus_window
    from twophase.counters.reading import of_window

    engines, window = prometheus_window(own, seconds, match)
    return [each for engine in engines for each in of_window([engine], window, beside)]


def _of_server(
    own: "Target", interval_s: float, watch: bool, beside: "Beside", json: bool, plain: bool
) -> int | None:
    from twophase.cli.counters_live import one_window, watched
    from twophase.counters.source import find_page

    found = find_page(own)
    if watch:
        return watched(found, interval_s, beside, json, plain)
    show(one_window(found, interval_s, beside), json, plain)
    return None


def show(readings: "list[Reading]", json: bool, plain: bool) -> None:
    if json:
        from twophase.report.counters_json import to_json

        print(to_json(readings))
        return
    from twophase.report import counters as render

    if plain or not sys.stdout.isatty():
        print(render.plain(readings))
    else:
        from rich.console import Console

        Console(highlight=False).print(render.rich(readings))
