"""A plan in the terminal, and as plain aligned text where it is not one."""

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from twophase.plan.answer import Answer
from twophase.plan.commands import launch
from twophase.report.aligned import aligned
from twophase.report.bench_terminal import HEAD, as_text, heading, note_lines, show, table
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
    slo_words,
)

NEAR = 6


def render(own: Answer, name: str, model: str, console: Console | None = None) -> None:
    show(blocks(own, name, model), console)


def plain(own: Answer, name: str, model: str) -> str:
    return as_text(blocks(own, name, model))


def lines(rows: Iterable[Sequence[str]]) -> Text:
    """Columns of words, never cut off: the last may be long."""
    found = list(rows)
    heads = [""] * len(found[0]) if found else [""]
    return Text("\n".join(aligned(heads, found, heads, "  ")[1:]), no_wrap=True)


def blocks(own: Answer, name: str, model: str) -> Iterable[RenderableType]:
    yield Text.assemble((f"{name}: {headline(own)}", HEAD))
    if beside_winner(own):
        yield Text(beside_winner(own))
    yield Text(f"{slo_words(own.question.slo)}\n{load_words(own)}\n{counted(own)}")
    front = [cells(own, each) for each in own.front]
    if own.best is not None:
        chosen = own.best.candidate
        if chosen.prefill is not None:
            yield Text(f"prefill: {kind_words(chosen.prefill)}")
            yield Text(f"decode: {kind_words(chosen.serving)}")
        else:
            yield Text(f"each: {kind_words(chosen.serving)}")
        yield heading("By what one wants", density(own))
        yield table(("", *HEADS), choice_rows(own), left=2)
        yield heading("Cost against latency", FRONT)
        yield table(HEADS, front)
        yield heading("Other ways", "P: prefill replicas, D: decode replicas")
        yield lines(rival_rows(own))
    if own.near:
        yield heading("As cheap, and not good enough")
        yield lines(near_rows(own, NEAR))
    said = legend([*choice_rows(own), *front, *rival_rows(own), *near_rows(own, NEAR)])
    if said:
        yield Text(f"\n{said}")
    yield heading("Ruled out by bounds")
    yield table(("", "", "candidates"), lost_rows(own), left=2)
    if own.best is not None:
        yield heading("If the load were another")
        yield table(("", "", "kept", "TTFT", "TPOT"), change_rows(own), left=2)
        yield heading("To start it")
        for engine, commands in launch(own.question, own.best.candidate, model).items():
            yield Text(f"{engine}:", "dim")
            yield from (Text(f"  {line}", no_wrap=True) for line in commands)
    yield from note_lines(notes(own))
    yield heading("Formulas")
    yield Text("\n".join(FORMULAS), "dim")
