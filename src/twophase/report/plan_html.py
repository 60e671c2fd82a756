"""A plan as one HTML page that needs nothing else."""

from collections.abc import Iterable, Sequence
from html import escape

from twophase.plan.answer import Answer
from twophase.plan.commands import launch
from twophase.plan.search import Best
from twophase.report.bench_page import (
    block,
    fact,
    figure,
    fill,
    lead,
    listing,
    section,
    table,
    warning,
    words,
)
from twophase.report.bench_svg import Colour, Marks, axis, chart
from twophase.report.plan_rows import (
    FORMULAS,
    FRONT,
    HEADS,
    beside_winner,
    cells,
    change_rows,
    choice_rows,
    counted,
    density,
    headline,
    kind_words,
    legend,
    load_words,
    lost_rows,
    near_rows,
    notes,
    rival_rows,
    seconds,
    slo_words,
)
from twophase.units import count, duration, percent, significant

NEAR = 12


def page(own: Answer, name: str, model: str) -> str:
    commands = launch(own.question, own.best.candidate, model) if own.best else {}
    started = "".join(
        f"<h3>{escape(engine)}</h3>{block(chr(10).join(lines))}" for engine, lines in commands.items()
    )
    sections = [
        section("By what one wants", rows(("", *HEADS), choice_rows(own), left=2), density(own)),
        section(
            "Cost against latency",
            front(own),
            f"Of what keeps the SLO, {FRONT}.",
        ),
        section("Other ways", rows(("", "cost", ""), rival_rows(own), left=3) if own.rivals else ""),
        section(
            "As cheap, and not good enough",
            rows(("", "cost", "why it lost"), near_rows(own, NEAR), left=3) if own.near else "",
        ),
        section("Ruled out by bounds", table(("", "why", "candidates"), lost_rows(own), left=2)),
        section(
            "If the load were another",
            table(("", "", "kept", "TTFT", "TPOT"), change_rows(own), left=2) if own.changes else "",
        ),
        section("To start it", started),
        section("Notes", listing(notes(own))),
        section("The formulas", words((f"{i}", each) for i, each in enumerate(FORMULAS, 1))),
    ]
    return fill(
        title=escape(f"{name}, planned: {headline(own)}"),
        about=f"twophase plan · <b>{escape(name)}</b>",
        headline=escape(headline(own)),
        lead=lead(f"{slo_words(own.question.slo)}.", f"{load_words(own)}; {counted(own)}"),
        warnings=warning(beside_winner(own)),
        facts="\n".join(facts(own)),
        sections="\n".join(sections),
        when=escape(counted(own)),
    )


def rows(heads: Sequence[str], found: Iterable[Sequence[str]], left: int) -> str:
    """A table of candidates, with what the mark means below it."""
    kept = list(found)
    said = legend(kept)
    return table(heads, kept, left=left) + (f'<p class="aside">{escape(said)}</p>' if said else "")


def facts(own: Answer) -> Iterable[str]:
    if own.best is None:
        return
    best, kept = own.best, own.best.trial.kept
    yield fact("Cost", f"${significant(best.usd_per_hour)}", "an hour")
    yield fact("GPUs", count(best.candidate.devices), kind_words(best.candidate.serving))
    yield fact("Keep the SLO", percent(kept.share), f"{percent(own.question.slo.attainment)} must")
    for name, value, limit in (
        ("TTFT", kept.ttft_s, own.question.slo.ttft_s),
        ("TPOT", kept.tpot_s, own.question.slo.tpot_s),
    ):
        yield fact(name, seconds(value), f"of {duration(limit)}" if limit < float("inf") else "no limit")


def front(own: Answer) -> str:
    if not own.front:
        return ""
    points = [place(each) for each in own.front]
    rivals = [place(each.best) for each in own.rivals if each.best is not None]
    every = [*points, *rivals]
    names: list[Marks] = []
    for each in own.front[:1]:
        names.append(Marks("dots", [place(each)], "q", "least cost"))
    colour: Colour = "f"
    drawn = chart(
        "Cost against end-to-end latency",
        axis("cost (USD per hour)", [x for x, _ in every], zero=True),
        axis("E2E latency (s)", [y for _, y in every], zero=True),
        [
            Marks("dots", rivals, colour),
            Marks("line", points, "p"),
            Marks("dots", points, "p"),
            *names,
        ],
    )
    shown = figure("Cost against latency", "Grey: the best of other accelerators.", drawn)
    return f'<div class="charts">{shown}</div>{rows(HEADS, (cells(own, each) for each in own.front), left=1)}'


def place(own: Best) -> tuple[float, float]:
    return own.usd_per_hour, own.trial.kept.e2e_s
