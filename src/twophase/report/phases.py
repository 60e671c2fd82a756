"""The table of both phases: the textbook's layout, rich tables on a terminal, JSON, CSV and Markdown."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from twophase.cost.phases import PhaseRow, Phases
from twophase.cost.textbook import Formats
from twophase.hardware.accelerator import Accelerator

if TYPE_CHECKING:
    from rich.console import Console

PREFILL_HEADS = ("prompt", "GFLOP", "GB", "FLOP/B", "t_comp ms", "t_mem ms", "bound", "tok/s")
DECODE_HEADS = ("context", *PREFILL_HEADS[1:])
WIDTHS = (7, 9, 6, 7, 10, 9, 8, 9)  # and a space between, which a wide figure never fills
COLUMNS = (
    *("phase", "prompt_tokens", "batch", "context", "flops", "bytes", "intensity"),
    *("compute_s", "memory_s", "floor_s", "bound", "tokens_per_s"),
)


@dataclass(frozen=True, slots=True)
class PhasesReport:
    """The numbers, and what they are about."""

    model: str
    accelerator: Accelerator
    formats: Formats
    weight_format: str  # as in --weights
    kv_format: str
    matmul_parameters: int
    kv_bytes_per_token: float
    phases: Phases


def plain(report: PhasesReport) -> str:
    """The textbook's own layout, and under it the floor with the last row's logits only."""
    lines = [*about(report), "", prefill_title(report), aligned(PREFILL_HEADS)]
    lines += [aligned(prefill_cells(row)) for row in report.phases.prefill]
    for batch, rows in by_batch(report.phases.decode):
        lines += ["", decode_title(batch), aligned(DECODE_HEADS)]
        lines += [aligned(decode_cells(row)) for row in rows]
    return "\n".join([*lines, "", *closing(report)])


def rich(report: PhasesReport, console: "Console") -> None:
    """The same numbers on a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], colour: str) -> Table:
        made = Table(title=title, title_justify="left", title_style=f"bold {colour}", box=box.SIMPLE_HEAD)
        for head in heads:
            made.add_column(head, justify="right", no_wrap=True)
        for cells in rows:
            made.add_row(*(Text(cell, "dim" if cell == "memory" else "") for cell in cells))
        return made

    subject, *rest = about(report)
    console.print(Text(subject, "bold"), *map(Text, rest), sep="\n")
    console.print()
    rows = map(prefill_cells, report.phases.prefill)
    console.print(table(prefill_title(report), PREFILL_HEADS, rows, "bright_blue"))
    for batch, own in by_batch(report.phases.decode):
        console.print(table(decode_title(batch), DECODE_HEADS, map(decode_cells, own), "dark_orange"))
    console.print(*map(Text, closing(report)), sep="\n")


def to_json(report: PhasesReport) -> str:
    """SI base units; floors are exact, the rest is the textbook's."""
    own, request = report.phases, report.phases.request
    return json.dumps(
        {
            "model": report.model,
            "accelerator": report.accelerator.name,
            "weights": report.weight_format,
            "kv": report.kv_format,
            "logits": report.formats.logits,
            "matmul_parameters": report.matmul_parameters,
            "kv_bytes_per_token": report.kv_bytes_per_token,
            "flops_per_s": report.accelerator.peak_flops,
            "bytes_per_s": report.accelerator.bandwidth,
            "ridge_flop_per_byte": report.accelerator.ridge,
            "fits": own.residence.fits,
            "needs": own.residence.needs,
            "weights_bytes": own.residence.weights_bytes,
            "excess_bytes": max(0.0, own.residence.excess_bytes),
            "prefill": [{"prompt_tokens": row.tokens, **figures(row)} for row in own.prefill],
            "decode": [{"batch": row.batch, "context": row.tokens, **figures(row)} for row in own.decode],
            "crossover_prompt": own.crossover_prompt,
            "crossover_prompt_floor": own.crossover_prompt_floor,
            "request": {
                "prompt_tokens": request.prompt_tokens,
                "output_tokens": request.output_tokens,
                "batch": request.batch,
                "prefill_s": request.prefill_s,
                "prefill_floor_s": request.prefill_floor_s,
                "decode_s": request.decode_s,
                "decode_share": request.decode_share,
            },
        },
        indent=2,
        allow_nan=False,
        ensure_ascii=False,
    )


def to_csv(report: PhasesReport) -> str:
    return "\n".join(",".join(cells) for cells in [COLUMNS, *records(report)])


def to_markdown(report: PhasesReport) -> str:
    rule = ["---" if name in ("phase", "bound") else "---:" for name in COLUMNS]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [COLUMNS, rule, *records(report)])


def records(report: PhasesReport) -> list[list[str]]:
    """One row a pass, in COLUMNS; what a phase does not have is empty."""
    rows: list[dict[str, Any]] = [
        {"phase": "prefill", "prompt_tokens": row.tokens, "batch": row.batch, **figures(row)}
        for row in report.phases.prefill
    ]
    rows += [
        {"phase": "decode", "batch": row.batch, "context": row.tokens, **figures(row)}
        for row in report.phases.decode
    ]
    return [[_cell(row.get(name, "")) for name in COLUMNS] for row in rows]


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def figures(row: PhaseRow) -> dict[str, Any]:
    return {
        "flops": row.flops,
        "bytes": row.bytes,
        "intensity": row.intensity,
        "compute_s": row.compute_s,
        "memory_s": row.memory_s,
        "floor_s": row.floor_s,
        "bound": row.bound,
        "tokens_per_s": row.tokens_per_s,
    }


def about(report: PhasesReport) -> list[str]:
    own = report.accelerator
    weight_bytes = report.matmul_parameters * report.formats.weight_bytes
    kib = f"{report.kv_bytes_per_token / 1024:.1f}".removesuffix(".0")
    lines = [
        f"{report.model}: {report.matmul_parameters / 1e9:.2f}B matmul weights, "
        f"{weight_bytes / 1e9:.1f} GB in {report.weight_format.upper()}, KV {kib} KiB/token",
        f"{own.title}: ridge point {own.ridge:.0f} FLOP/byte",
    ]
    if report.weight_format not in ("bf16", "fp16"):
        lines.append(
            f"{report.weight_format.upper()} is how weights are stored: arithmetic counts at the "
            f"{own.arithmetic.upper()} peak, {own.peak_flops / 1e12:g} TFLOP/s"
        )
    elif own.arithmetic != "bf16":
        lines.append(f"{own.title} has no BF16: arithmetic counts at its {own.arithmetic.upper()} peak")
    return lines


def prefill_title(report: PhasesReport) -> str:
    rows = "" if report.formats.logits == "all" else ", logits of the last token only"
    return f"Prefill of one prompt (roofline lower bound on TTFT){rows}"


def decode_title(batch: int) -> str:
    return f"One decode step, batch {batch} (roofline lower bound on inter-token latency)"


def aligned(cells: Iterable[str]) -> str:
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def prefill_cells(row: PhaseRow) -> tuple[str, ...]:
    return (
        f"{row.tokens}",
        f"{row.flops / 1e9:.0f}",
        f"{row.bytes / 1e9:.1f}",
        f"{row.intensity:.0f}",
        f"{row.compute_s * 1e3:.2f}",
        f"{row.memory_s * 1e3:.2f}",
        row.bound,
        f"{row.tokens_per_s:.0f}",
    )


def decode_cells(row: PhaseRow) -> tuple[str, ...]:
    return (
        f"{row.tokens}",
        f"{row.flops / 1e9:.1f}",
        f"{row.bytes / 1e9:.2f}",
        f"{row.intensity:.1f}",
        f"{row.compute_s * 1e3:.3f}",
        f"{row.memory_s * 1e3:.2f}",
        row.bound,
        f"{row.tokens_per_s:.0f}",
    )


def by_batch(rows: Iterable[PhaseRow]) -> list[tuple[int, list[PhaseRow]]]:
    return [(batch, list(own)) for batch, own in groupby(rows, lambda row: row.batch)]


def closing(report: PhasesReport) -> list[str]:
    """Where prefill turns, the request's split, and the tighter floor."""
    own, request = report.phases, report.phases.request
    per_byte = 2 / report.formats.weight_bytes
    rows = "tokens in the batch" if per_byte == 1 else f"{per_byte:g} x tokens in the batch"
    turns = (
        f"Prefill turns compute-bound near {own.crossover_prompt} prompt tokens: "
        f"intensity of a weight matmul ~ {rows}."
        if own.crossover_prompt
        else "Prefill stays memory-bound at any prompt length."
    )
    return [
        turns,
        f"Request of {request.prompt_tokens} in, {request.output_tokens} out at batch {request.batch}: "
        f"prefill {milliseconds(request.prefill_s)} ms, decode {milliseconds(request.decode_s)} ms "
        f"({request.decode_share * 100:.0f}% of the time)",
        f"Tighter floor, logits of the last prompt token only and exact causal pairs: prefill of "
        f"{request.prompt_tokens} tokens {request.prefill_floor_s * 1e3:.2f} ms"
        + (f", compute-bound from {own.crossover_prompt_floor}" if own.crossover_prompt_floor else ""),
    ]


def milliseconds(value_s: float) -> str:
    """Whole ones, as the textbook; more digits where that would show nothing."""
    return f"{value_s * 1e3:.0f}" if value_s >= 0.0095 else f"{value_s * 1e3:.2g}"
