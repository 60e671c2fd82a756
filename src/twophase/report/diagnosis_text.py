"""A diagnosis in the terminal, and as plain aligned text where it is not one."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from twophase.advise.diagnosis import Advice, DecodeRow, Diagnosis, PrefillRow, RequestSplit, Roofs
from twophase.report.wording import (
    ELSEWHERE,
    fit_formula,
    headline,
    label,
    price_of,
    scope,
    turned_on,
    turning_points,
)
from twophase.units import count, duration, milliseconds, percent, quantity, significant, times

WIDTH = 100
BAR = 32
PREFILL, DECODE, HEAD = "bright_blue", "dark_orange", "bold"


def render(diagnosis: Diagnosis, console: Console) -> None:
    """Print roofs, both phases' curves, the request's split, the verdict and the levers."""
    blocks = (
        about(diagnosis),
        roofs_line(diagnosis.roofs),
        heading("Prefill", "one prompt in one pass", PREFILL),
        prefill_table(diagnosis.prefill),
        Text("\n".join([*turning_points(diagnosis), fit_formula(diagnosis.ttft_fit)])),
        heading("Decode", "one token for each sequence in one pass", DECODE),
        decode_table(diagnosis.decode),
        *request_lines(diagnosis.request, console.encoding),
        heading("Verdict", headline(diagnosis.verdict)),
        Text(diagnosis.verdict.summary),
        *advice_lines(diagnosis.verdict.advice),
        *note_lines(diagnosis.notes),
    )
    for block in blocks:
        console.print(block, width=min(console.width, WIDTH))


def about(diagnosis: Diagnosis) -> Text:
    return Text.assemble(
        (label(diagnosis), HEAD),
        f"  {diagnosis.weight_format}, {quantity(diagnosis.weight_bytes, 'B')} of weights, "
        f"KV cache {quantity(diagnosis.kv_bytes_per_token, 'B')} a token\n"
        f"{diagnosis.roofs.cpu}, {diagnosis.roofs.threads} threads; "
        f"measured in {duration(diagnosis.seconds)}",
    )


def roofs_line(roofs: Roofs) -> Text:
    slowest_compute = quantity(roofs.flops_per_s_range[0], "FLOP/s")
    slowest_read = quantity(roofs.read_bytes_per_s_range[0], "B/s")
    return Text.assemble(
        ("\nRoofs", HEAD),
        f"  measured, the best of all probes\n"
        f"{quantity(roofs.flops_per_s, 'FLOP/s'):<13} {roofs.compute}; slowest probe {slowest_compute}\n"
        f"{quantity(roofs.read_bytes_per_s, 'B/s'):<13} memory read; slowest probe {slowest_read}\n"
        f"{significant(roofs.ridge_flop_per_byte)} FLOP/byte is the ridge: memory binds below it, "
        f"arithmetic above",
    )


def heading(title: str, rest: str, style: str = "") -> Text:
    return Text.assemble(("\n" + title, f"{HEAD} {style}".strip()), f"  {rest}" if rest else "")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Numbers to the right, the last column's words to the left."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns[:-1]:
        made.add_column(column, justify="right", no_wrap=True)
    made.add_column(columns[-1], no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


def prefill_table(rows: Sequence[PrefillRow]) -> Table:
    columns = (
        *("prompt\ntokens", "TTFT ms\nmeasured", "TTFT ms\nfloor", "measured\n÷ floor", "MFU\n", "MBU\n"),
        *("tokens/s\nmeasured", "bound by\n"),
    )
    return table(
        columns,
        (
            (
                count(row.prompt_tokens),
                *(milliseconds(row.ttft_s), milliseconds(row.floor_s), times(row.ttft_s / row.floor_s)),
                *(percent(row.mfu), percent(row.mbu)),
                significant(row.prompt_tokens / row.ttft_s),
                row.bound,
            )
            for row in rows
        ),
    )


def decode_table(rows: Sequence[DecodeRow]) -> Table:
    columns = (
        *("batch\n", "context\ntokens", "ITL ms\nmeasured", "ITL ms\nfloor", "measured\n÷ floor"),
        *("MFU\n", "MBU\n", "tokens/s\nmeasured", "bound by\n"),
    )
    return table(
        columns,
        (
            (
                *(count(row.batch), count(row.context)),
                *(milliseconds(row.itl_s), milliseconds(row.floor_s), times(row.itl_s / row.floor_s)),
                *(percent(row.mfu), percent(row.mbu)),
                significant(row.batch / row.itl_s),
                row.bound,
            )
            for row in rows
        ),
    )


def request_lines(request: RequestSplit, encoding: str) -> Iterable[Text]:
    source = "extrapolated from the measured passes" if request.extrapolated else "run whole"
    yield heading(
        "Request", f"{count(request.prompt_tokens)} in, {count(request.output_tokens)} out, alone; {source}"
    )
    total = request.prefill_s + request.decode_s
    for name, prefill, decode in (
        ("measured", request.prefill_s, request.decode_s),
        ("floor", request.prefill_floor_s, request.decode_floor_s),
    ):
        whole = prefill + decode
        yield Text.assemble(
            f"{name:<9}",
            *two_phase_bar(prefill / total, decode / total, encoding),
            f"{duration(whole):>10}   ",
            (f"prefill {duration(prefill)} ({percent(prefill / whole)})", PREFILL),
            "\n" + " " * (9 + BAR + 13),
            (f"decode  {duration(decode)} ({percent(decode / whole)})", DECODE),
        )


def two_phase_bar(
    prefill: float, decode: float, encoding: str
) -> tuple[tuple[str, str], tuple[str, str], str]:
    """Both phases as shares of the bar's full width; a phase that takes any time shows."""
    full, light = ("█", "░") if encoding.lower().startswith("utf") else ("#", "-")
    whole = min(round(BAR * (prefill + decode)), BAR)
    first = min(max(round(BAR * prefill), prefill > 0), whole - (decode > 0))
    second = whole - first
    return (full * first, PREFILL), (light * second, DECODE), " " * (BAR - first - second)


def advice_lines(advice: Sequence[Advice]) -> Iterable[Text | Padding | Table]:
    for title, rest, chosen in (
        ("What would help", "the request's time before ÷ after, each alone", [a for a in advice if a.helps]),
        ("What would not", "the same, less than a tenth", [a for a in advice if not a.helps]),
    ):
        if chosen:
            yield heading(title, rest)
            yield lever_table(chosen)
    yield Text(ELSEWHERE, "dim")


def lever_table(advice: Sequence[Advice]) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(justify="right", no_wrap=True)
    made.add_column()
    for each in advice:
        meant = f" ({scope(each)})" if scope(each) else ""
        made.add_row(gain(each), Text.assemble((each.change, HEAD), f"{meant}\n{each.why}"))
        for title, said in (("price", price_of(each.price)), ("on", turned_on(each.flags))):
            if each.helps and said:
                made.add_row("", Text(f"{title}: {said}", "dim"))
    return made


def gain(each: Advice) -> str:
    factor = each.gain or each.throughput_gain
    return times(factor) if factor else "depends"


def note_lines(notes: Sequence[str]) -> Iterable[Text]:
    if notes:
        yield heading("Notes", "")
        yield from (Text(f"- {note}") for note in notes)
