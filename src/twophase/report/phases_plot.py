"""The plot of both phases: one HTML page that needs nothing else, or one picture, PNG or SVG."""

from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from twophase.errors import InputError
from twophase.report import phases as tables
from twophase.report.phases import PhasesReport
from twophase.report.phases_floors import itl, ttft
from twophase.report.phases_roofline import roofline, roofs
from twophase.report.vega import Spec, require_charts, svg

SUFFIXES = (".html", ".png", ".svg")
SCALE = 2.0  # of a PNG: its pixels to the SVG's
GAP = 28  # pixels between panels
LIGHT = {
    "prefill": "#0072b2",
    "decode": "#c75300",
    "ink": "#1c1e21",
    "soft": "#4b5057",
    "faint": "#666c74",
    "grid": "#e4e6e9",
    "paper": "#ffffff",
}
DARK = {
    "prefill": "#58b1e8",
    "decode": "#f09a4a",
    "ink": "#e8eaed",
    "soft": "#b9bec5",
    "faint": "#9aa1a9",
    "grid": "#33373d",
    "paper": "#16181b",
}


def draw(report: PhasesReport, suffix: str) -> bytes:
    """A file of one of SUFFIXES. InputError for any other, and where vl-convert is missing."""
    if suffix == ".html":
        return page(report).encode()
    if suffix == ".svg":
        return picture(report).encode()
    if suffix == ".png":
        require_charts()
        import vl_convert

        return bytes(vl_convert.svg_to_png(picture(report), scale=SCALE))
    raise InputError(f"no plot is written to {suffix or 'a file without suffix'}: {', '.join(SUFFIXES)} are")


def title(report: PhasesReport) -> str:
    return f"{report.deployment.spec.name} on {report.accelerator.title}: the floor of prefill and decode"


def formats(report: PhasesReport) -> str:
    """How it is served: BF16 weights, BF16 arithmetic, BF16 KV cache, TP4 on 4 devices."""
    own = report.deployment
    plan = f"{own.plan} on {own.plan.devices} devices" if report.parallel else "one device"
    arithmetic = next(roof.name for roof in roofs(report) if roof.used)
    return (
        f"{own.storage.name.upper()} weights, {arithmetic.upper()} arithmetic, "
        f"{report.kv_format.upper()} KV cache, {plan}"
    )


def panels(report: PhasesReport) -> list[tuple[str, Spec]]:
    """Each chart with its title."""
    batches = {row.batch for row in report.phases.decode}
    step = f"batch {batches.pop():,}" if len(batches) == 1 else "one step of a batch"
    return [
        ("Roofline", roofline(report)),
        ("Floor of TTFT, one prompt", ttft(report)),
        (f"Floor of ITL, {step}", itl(report)),
    ]


def picture(report: PhasesReport) -> str:
    """All panels as one SVG, in the colours of paper: for slides."""
    first, *rest = [_panel(text, spec) for text, spec in panels(report)]
    config = first["config"]
    for each in (first, *rest):
        del each["config"], each["background"], each["padding"]
    whole = {
        "title": {
            "text": title(report),
            "subtitle": formats(report),
            **{"anchor": "start", "fontSize": 17, "subtitleFontSize": 13, "offset": 18, "subtitlePadding": 5},
            **{"color": LIGHT["ink"], "subtitleColor": LIGHT["soft"], "fontWeight": 600},
        },
        "background": LIGHT["paper"],
        "padding": 16,
        "spacing": GAP,
        "hconcat": [first, {"vconcat": rest, "spacing": GAP - 8}],
        "config": config,
    }
    drawn = svg(whole, f"{title(report)}; {formats(report)}")
    for name, colour in LIGHT.items():
        drawn = drawn.replace(f"var(--{name})", colour)
    return drawn


def page(report: PhasesReport) -> str:
    """The panels in the reader's light or dark, and the tables as text."""
    template = Template((files("twophase.report") / "phases.html").read_text(encoding="utf-8"))
    roof, *floors = [
        f"<figure><figcaption>{escape(text)}</figcaption>{svg(spec, text)}</figure>"
        for text, spec in panels(report)
    ]
    return template.substitute(
        title=escape(title(report)),
        formats=escape(formats(report)),
        light=_variables(LIGHT),
        dark=_variables(DARK),
        roofline=roof,
        floors="\n".join(floors),
        closing="\n".join(f"<p>{escape(line)}</p>" for line in tables.closing(report)),
        tables=escape(tables.plain(report)),
        version=version("twophase"),
    )


def _panel(text: str, spec: Spec) -> Spec:
    head = {"text": text, "anchor": "start", "fontSize": 13, "color": LIGHT["ink"], "offset": 6}
    return {**spec, "title": {**head, "fontWeight": 600}}


def _variables(palette: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())
