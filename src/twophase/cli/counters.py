"""twophase counters: which phase dominates in production, from an engine's own counters."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twophase.cli.deployment import KV, HardwareOption, KVOption, TpOption, WeightsOption
from twophase.cli.options import JsonOption, positive
from twophase.errors import InputError

if TYPE_CHECKING:
    from twophase.counters.fetch import Target
    from twophase.counters.prior_type import Prior
    from twophase.counters.reading import Beside, Reading

UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
OF_PROMETHEUS = {"query_window": "--query-window", "match": "--match"}
OF_SERVERS = {"interval": "--interval", "watch": "--watch"}


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
    plain: Annotated[bool, typer.Option("--plain", help="Plain text on a terminal, too.")] = False,
) -> int | None:
    """Tell prefill from decode in production: tokens, times and GPU time, from an engine's own counters."""
    if json and plain:
        raise InputError("give one of --json and --plain")
    positive("--timeout", timeout)
    given = {name for name in (*OF_PROMETHEUS, *OF_SERVERS) if _from_user(context, name)}
    between_s = seconds_of("--interval", interval)
    window_s = None if window is None else seconds_of("--window", window)
    asked_s = seconds_of("--query-window", query_window)
    _require_sound(source, second, prometheus, window, given)

    from twophase.counters.calibrated import read_curves
    from twophase.counters.fetch import target
    from twophase.counters.reading import Beside
    from twophase.counters.source import is_url

    headers = headers_of(header or [], api_key)
    beside = Beside(curves=read_curves(curves) if curves else None)
    if gpu is not None or model is not None:
        _require_known(gpu, model, hardware)

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


def _require_sound(
    source: str | None, second: str | None, prometheus: str | None, window: str | None, given: set[str]
) -> None:
    from twophase.counters.source import is_url

    if prometheus is not None and source is not None:
        raise InputError("give a server, files or --prometheus: one of them")
    if prometheus is None and source is None:
        raise InputError("give a server's URL, two pages of its /metrics, or --prometheus URL")
    for name in given & set(OF_PROMETHEUS):
        if prometheus is None:
            raise InputError(f"{OF_PROMETHEUS[name]} is of --prometheus URL")
    if prometheus is not None:
        for name in given & set(OF_SERVERS):
            raise InputError(f"{OF_SERVERS[name]} is of a server's URL: --query-window is Prometheus'")
    if window is not None and (prometheus is not None or is_url(source or "")):
        raise InputError("--window is of two files: a server's own is --interval, Prometheus' --query-window")
    if source is None:
        return
    if second is not None and (is_url(source) or is_url(second)):
        raise InputError("give one URL, or two files: a URL is read twice by itself, an --interval apart")
    for name in given & set(OF_SERVERS):
        if not is_url(source):
            raise InputError(f"{OF_SERVERS[name]} is of a server's URL: files have --window SECONDS")


def seconds_of(option: str, text: str) -> float:
    """30, 30s, 5m, 1h."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *(ms|s|min|m|h|d|)", text.strip())
    if found is None or float(found[1]) <= 0:
        raise InputError(f"{option} {text}: give a time like 30s, 5m or 1h")
    return float(found[1]) * UNITS[found[2]]


def headers_of(given: list[str], api_key: str | None) -> dict[str, str]:
    found = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name.strip()):
            raise InputError(f"--header {name}: give it as 'Name: value'")
        found[name.strip()] = value.strip()
    for name, value in found.items():
        if not (value.isascii() and value.isprintable()):
            raise InputError(f"the value of {name} has letters that no header may have")
    return found


def _from_user(context: typer.Context, name: str) -> bool:
    found = context.get_parameter_source(name)
    return found is not None and found.name == "COMMANDLINE"


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
