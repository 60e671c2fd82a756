"""Measured rows beside their floors: a table, the flagged rows in words, a summary; text, terminal, JSON."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twophase.lint.lint import Checked, Flag
from twophase.lint.quantities import Name, Quantity
from twophase.lint.resident import time_per_token
from twophase.report.aligned import aligned
from twophase.units import count, duration, significant

if TYPE_CHECKING:
    from rich.console import Console

HEADS = ("row", "model", "gpu", "of", "measured", "floor", "headroom", "MFU", "MBU", "bound", "flag")
LEFT = ("row", "model", "gpu", "of", "bound", "flag")
UNITS: dict[Name, str] = {
    "output": "output tok/s",
    "total": "in+out tok/s",
    "input": "input tok/s",
    "requests": "requests/s",
}
RATES: dict[Name, str] = {
    "output": "output_tokens_per_s",
    "total": "total_tokens_per_s",
    "input": "input_tokens_per_s",
    "requests": "requests_per_s",
}
TIMES: dict[Name, str] = {"TTFT": "ttft", "ITL": "itl", "E2E": "e2e"}
COLOURS = {"impossible": "bold red", "suspicious": "yellow"}
MOST_REASONS = 12  # why rows were not checked, of a summary
LONGEST = 28  # letters of a row's name, a model's or a GPU's in a table
LEGEND = (
    "of: the quantity nearest to its floor, or furthest below; a rate's floor is the most that there can be; "
    "headroom: measured over floor, of a rate the other way round; MFU, MBU: shares of peak arithmetic "
    "and of bandwidth"
)


def to_json(rows: Sequence[Checked], shown: Sequence[Checked]) -> str:
    """{rows: those shown, summary: of all}; SI units, null where a row has no such thing."""
    return json.dumps(
        {"rows": [document(each) for each in shown], "summary": summary(rows)},
        indent=2,
        ensure_ascii=False,
        allow_nan=False,
    )


def document(own: Checked) -> dict[str, Any]:
    point, served, tightest = own.point, own.served, own.tightest
    by_name = {each.name: each for each in own.quantities}
    measured = {"TTFT": point.ttft_s, "ITL": time_per_token(point), "E2E": point.e2e_s}
    found: dict[str, Any] = {
        "row": point.row,
        "model": served.model if served else point.model,
        "accelerator": served.accelerator.name if served else point.gpu,
        "plan": dict(served.decode.own.plan.sizes) if served else None,
        "weights": served.decode.own.storage.name if served else point.weights,
        "concurrency": point.concurrency,
    }
    for name, key in TIMES.items():
        found |= {f"{key}_s": measured[name], f"{key}_floor_s": floor_of(by_name.get(name))}
    for name, key in RATES.items():
        each = by_name.get(name)
        found |= {
            key: 1 / each.measured_s if each else None,
            f"{key}_most": 1 / each.floor_s if each else None,
        }
    return found | {
        "of": tightest.name if tightest else None,
        "headroom": tightest.headroom if tightest else None,
        "mfu": tightest.mfu if tightest else None,
        "mbu": tightest.mbu if tightest else None,
        "bound": tightest.bound if tightest else None,
        "flags": [flag_document(flag) for flag in own.flags],
        "notes": list(own.notes),
        "checked": not own.why,
        "why": own.why,
    }


def flag_document(flag: Flag) -> dict[str, Any]:
    return {
        "kind": flag.kind,
        "says": flag.says,
        "breaks": [{"assumption": each.assumption, "says": each.says} for each in flag.breaks],
    }


def floor_of(each: Quantity | None) -> float | None:
    return each.floor_s if each else None


def summary(rows: Sequence[Checked]) -> dict[str, Any]:
    """Numbers of rows, and why some were not checked."""
    return {
        "rows": len(rows),
        "checked": sum(not each.why for each in rows),
        "impossible": sum(each.impossible for each in rows),
        "suspicious": sum(kind_of(each) == "suspicious" for each in rows),
        "not_checked": dict(Counter(each.why for each in rows if each.why).most_common()),
    }


def kind_of(own: Checked) -> str:
    """The gravest flag's."""
    kinds = {flag.kind for flag in own.flags}
    return next((kind for kind in COLOURS if kind in kinds), "")


def to_csv(shown: Sequence[Checked]) -> str:
    """The same rows; "" where none is shown."""
    written = io.StringIO()
    documents = [document(each) for each in shown]
    names = list(documents[0]) if documents else []
    writer = csv.DictWriter(written, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    for each in documents:
        said = "; ".join(flag["says"] for flag in each["flags"])
        plan = " ".join(f"{name}{size}" for name, size in (each["plan"] or {}).items())
        writer.writerow(each | {"flags": said, "notes": "; ".join(each["notes"]), "plan": plan})
    return written.getvalue().rstrip("\n")


def cells(own: Checked) -> tuple[str, ...]:
    point, served, each = own.point, own.served, own.tightest
    gpu = served.accelerator.name if served else point.gpu or ""
    if served and served.devices > 1:
        gpu = f"{served.devices}x {gpu}"
    names = tuple(map(cut, (point.row, served.model if served else point.model or "", gpu)))
    if each is None:
        return (*names, *[""] * 7, "not checked")
    return (
        *names,
        UNITS.get(each.name, each.name),
        amount(each, each.measured_s),
        amount(each, each.floor_s),
        significant(each.headroom),
        significant(each.mfu, 2),
        significant(each.mbu, 2),
        each.bound,
        kind_of(own),
    )


def cut(name: str) -> str:
    """Rows are told apart at the ends of their names."""
    kept = LONGEST - 3
    return name if len(name) <= LONGEST else f"{name[: kept // 2]}...{name[-(kept - kept // 2) :]}"


def amount(each: Quantity, seconds: float) -> str:
    return significant(1 / seconds, 4) if each.is_rate else duration(seconds)


def said(own: Checked) -> list[tuple[str, str]]:
    """(kind, sentence) of each flag, with what is to be known beside."""
    notes = [("note", note) for note in own.notes] if own.flags else []
    return [*((flag.kind, flag.says) for flag in own.flags), *notes]


def summary_lines(rows: Sequence[Checked]) -> list[str]:
    found = summary(rows)
    unchecked = found["rows"] - found["checked"]
    lines = [
        f"{count(found['rows'])} rows: {count(found['checked'])} checked, {found['impossible']} impossible, "
        f"{found['suspicious']} suspicious, {count(unchecked)} not checked"
    ]
    reasons = list(found["not_checked"].items())
    lines += [f"  not checked, {many}: {why}" for why, many in reasons[:MOST_REASONS]]
    others = len(reasons) - MOST_REASONS
    return lines + ([f"  and for {others} more reasons, which --json has"] if others > 0 else [])


def plain(rows: Sequence[Checked], shown: Sequence[Checked]) -> str:
    lines = aligned(HEADS, [*map(cells, shown)], LEFT, between="  ")
    for own in shown:
        if own.flags:
            lines += ["", own.point.row, *(f"  {kind}: {sentence}" for kind, sentence in said(own))]
    return "\n".join([*lines, "", LEGEND, "", *summary_lines(rows)])


def rich(rows: Sequence[Checked], shown: Sequence[Checked], console: "Console") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for head in HEADS:
        table.add_column(head, justify="left" if head in LEFT else "right", overflow="fold")
    for own in shown:
        *figures, flag = cells(own)
        table.add_row(*map(Text, figures), Text(flag, COLOURS.get(flag, "dim")))
    console.print(table)
    for own in shown:
        if own.flags:
            console.print(Text(own.point.row, "bold"))
            for kind, sentence in said(own):
                console.print(Text.assemble("  ", (f"{kind}: ", COLOURS.get(kind, "dim")), sentence))
    console.print(Text(LEGEND, "dim"))
    for line in summary_lines(rows):
        console.print(Text(line))
