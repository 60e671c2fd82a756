"""A server's two curves and the verdict on them, in the terminal or as plain text."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twophase.advise.known import Filled, known_levers
from twophase.meter.beside import Mark
from twophase.meter.curves import Curves
from twophase.meter.itl_law import itl_at
from twophase.meter.own_error import OwnError
from twophase.meter.records import LoadRun
from twophase.meter.ttft_curve import ttft_at
from twophase.meter.verdict import Lever, Verdict, fit_line, law_line
from twophase.report.bench_rows import error_line, server, title
from twophase.report.bench_terminal import HEAD, as_text, heading, note_lines, table
from twophase.report.wording import price_of, turned_on
from twophase.units import count, duration, milliseconds, percent, significant, times

PREFILL, DECODE = "bright_blue", "dark_orange"


@dataclass(frozen=True, slots=True)
class ServerDiagnosis:
    run: LoadRun
    curves: Curves
    verdict: Verdict
    error: OwnError
    notes: tuple[str, ...] = ()  # of the verb: why there are no floors


def plain(own: ServerDiagnosis) -> str:
    return as_text(blocks(own))


def blocks(own: ServerDiagnosis) -> Iterable[RenderableType]:
    yield Text(own.verdict.headline, HEAD, no_wrap=True)
    yield Text(f"\n{title(own.run)}\n{server(own.run)}, measured in {duration(own.curves.seconds)}")
    yield Text(error_line(own.error))
    if own.run.partial:
        yield Text(f"Partial: {own.run.partial}. What was measured until then follows.", "bold red")
    for phase in own.verdict.phases:
        yield Text(phase.sentence)
    yield from _prefill(own)
    yield from _decode(own)
    yield from _levers(own.verdict)
    yield from note_lines(all_notes(own))


def all_notes(own: ServerDiagnosis) -> list[str]:
    """What a reader must know before relying on it."""
    curves = own.curves
    found = [*curves.failed]
    if own.error.limited:
        found.append(f"The client was the bottleneck: {own.error.limited}.")
    if curves.ttft:
        found += [f"The TTFT fit is poor: {reason}." for reason in curves.ttft.poor]
    if curves.itl:
        found += [f"The ITL law is poor: {reason}." for reason in curves.itl.poor]
    if curves.cached_share is None:
        found.append(
            "The server does not say how much of a prompt its prefix cache held; every prompt began with "
            "words of its own."
        )
    failures = {each.reason for each in own.run.replies if each.outcome != "finished" and each.reason}
    found += [f"A request did not finish: {reason}" for reason in sorted(failures)[:3]]
    return [*found, *curves.notes, *own.notes, *own.run.notes]


MARK_HEADS = ("floor\nms", "÷ floor\n", "MFU\n", "MBU\n", "floor\nbound by")


def _prefill(own: ServerDiagnosis) -> Iterable[RenderableType]:
    rest = f"one prompt at a time, each new from its first token{cached(own.curves)}"
    yield heading("Prefill", rest, PREFILL)
    yield table(prefill_heads(own), prefill_cells(own), left=0)
    if own.curves.ttft:
        yield Text(fit_text(own))


def prefill_heads(own: ServerDiagnosis) -> list[str]:
    heads = ("prompt\ntokens", "TTFT ms\nmedian", "least\nms", "most\nms", "fit\nms", "tokens/s\n", "runs\n")
    return [*heads, *(MARK_HEADS if own.verdict.beside else ())]


def prefill_cells(own: ServerDiagnosis) -> list[list[str]]:
    fit, marks = own.curves.ttft, own.verdict.beside
    return [
        [
            count(each.prompt_tokens),
            *(milliseconds(each.ttft_s), milliseconds(each.low_s), milliseconds(each.high_s)),
            milliseconds(ttft_at(fit, each.prompt_tokens)) if fit else "–",
            significant(each.prompt_tokens / each.ttft_s),
            str(each.runs),
            *(mark_cells(marks.prefill[at]) if marks else ()),
        ]
        for at, each in enumerate(own.curves.prefill)
    ]


def fit_text(own: ServerDiagnosis) -> str:
    fit, marks = own.curves.ttft, own.verdict.beside
    if fit is None:
        return ""
    lines = [
        f"{fit_line(fit)}; 95 % intervals, n prompt tokens",
        f"points lie {percent(fit.noise)} off the curve, the furthest {percent(fit.worst)}; "
        f"{fit.points} points from {count(fit.from_tokens)} to {count(fit.to_tokens)} tokens",
    ]
    equal = fit.quadratic_equals_linear_tokens
    if equal and equal.value <= 10 * fit.to_tokens:
        lines.append(f"attention costs as much as the rest from {count(equal.value)} tokens on")
    if marks:
        shares = [
            f"{name} {percent(value)} MFU"
            for name, value in (("linear part", marks.linear_mfu), ("quadratic part", marks.quadratic_mfu))
            if value is not None
        ]
        if marks.compute_bound_from_tokens:
            shares.append(f"the floor is arithmetic from {count(marks.compute_bound_from_tokens)} tokens on")
        lines.append("; ".join(shares))
    return "\n".join(filter(None, lines))


def _decode(own: ServerDiagnosis) -> Iterable[RenderableType]:
    yield heading("Decode", "all sequences together, after the last one's first token", DECODE)
    yield table(decode_heads(own), decode_cells(own), left=0)
    if own.curves.itl:
        yield Text(law_text(own))


def decode_heads(own: ServerDiagnosis) -> list[str]:
    heads = ("batch\n", "context\ntokens", "ITL ms\n", "law\nms", "tokens/s\n")
    return [*heads, *(MARK_HEADS if own.verdict.beside else ())]


def decode_cells(own: ServerDiagnosis) -> list[list[str]]:
    """By batch, then context."""
    law, marks = own.curves.itl, own.verdict.beside
    order = sorted(enumerate(own.curves.decode), key=lambda pair: (pair[1].batch, pair[1].context))
    return [
        [
            *(str(each.batch), count(each.context), milliseconds(each.itl_s)),
            milliseconds(itl_at(law, each.batch, each.context)) if law else "–",
            significant(each.batch / each.itl_s),
            *(mark_cells(marks.decode[at]) if marks else ()),
        ]
        for at, each in order
    ]


def law_text(own: ServerDiagnosis) -> str:
    law, marks = own.curves.itl, own.verdict.beside
    if law is None:
        return ""
    lines = [
        f"{law_line(law)}; 95 % intervals",
        f"points lie {percent(law.noise)} off the law, the furthest {percent(law.worst)}",
    ]
    if law.doubling_batch:
        batch = count(law.doubling_batch.value)
        lines.append(f"sequences cost as much as the pass itself from a batch of {batch} on")
    if marks:
        shares = [
            f"{name} {percent(value)} {unit}"
            for name, value, unit in (
                ("every pass", marks.weights_mbu, "MBU"),
                ("each sequence", marks.sequence_mfu, "MFU"),
                ("its context", marks.kv_mbu, "MBU"),
            )
            if value is not None
        ]
        if marks.compute_bound_batch:
            batch = count(marks.compute_bound_batch)
            shares.append(f"the floor is arithmetic from a batch of {batch} on, at no context")
        lines.append("; ".join(shares))
    return "\n".join(filter(None, lines))


def mark_cells(own: Mark) -> list[str]:
    ratio = times(own.measured_s / own.floor_s)
    return [milliseconds(own.floor_s), ratio, percent(own.mfu), percent(own.mbu), own.bound]


def cached(curves: Curves) -> str:
    return (
        f"; {percent(curves.cached_share)} of their tokens cached" if curves.cached_share is not None else ""
    )


def _levers(verdict: Verdict) -> Iterable[RenderableType]:
    if verdict.levers:
        yield heading(
            "What would pay",
            f"a request of {count(verdict.prompt_tokens)} in and {count(verdict.output_tokens)} out, "
            f"{duration(verdict.seconds)} alone: before ÷ after, each by itself",
        )
        yield _lever_table(verdict.levers)


def scope(each: Lever) -> str:
    """What a lever's number must not be taken for."""
    if each.serves_more:
        return "tokens served a second; none gets faster"
    return "depends on what is asked" if each.depends else ""


def listed(each: Lever) -> Filled:
    """What the list that `advise` has says of it: its price, and how to turn it on."""
    return known_levers()[each.lever].filled({}) if each.lever else Filled({}, {})


def terms_of(each: Lever) -> list[str]:
    known = listed(each)
    said = (("price", price_of(known.price)), ("on", turned_on(known.flags)))
    return [f"{title}: {text}" for title, text in said if text]


def _lever_table(levers: Iterable[Lever]) -> RenderableType:
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(justify="right", no_wrap=True)
    made.add_column()
    for each in levers:
        meant = f" ({scope(each)})" if scope(each) else ""
        made.add_row(times(each.gain), Text.assemble((each.change, HEAD), f"{meant}\n{each.why}"))
        for line in terms_of(each):
            made.add_row("", Text(line, "dim"))
    return made
