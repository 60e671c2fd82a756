"""The table of both phases: the textbook's layout as plain text, and rich tables on a terminal."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from twophase.cost.communication import bubble
from twophase.cost.deployment import Deployment, device_stages
from twophase.cost.parallel import Plan, resident_bytes
from twophase.cost.phases import PhaseRow, Phases
from twophase.cost.textbook import Logits
from twophase.hardware.accelerator import Accelerator
from twophase.model.cache import kv_bytes_per_token
from twophase.model.counts import all_matmul_parameters, matmul_parameters
from twophase.model.spec import MoE
from twophase.model.stored import matmul_bytes

if TYPE_CHECKING:
    from rich.console import Console

HEADS = ("GFLOP", "GB", "FLOP/B", "t_comp ms", "t_mem ms", "bound", "tok/s")
SHORT = {"communication": "link"}  # as its column is called
WIDTHS = (7, 9, 6, 7, 10, 9, 9, 8, 9)  # and a space between, which a wide figure never fills


@dataclass(frozen=True, slots=True)
class PhasesReport:
    """The numbers, and what they are about."""

    deployment: Deployment
    accelerator: Accelerator
    kv_format: str  # as in --kv
    logits: Logits
    phases: Phases

    @property
    def arithmetic(self) -> str:
        """Operands' type of most FLOPs of the blocks' matmuls."""
        flops: dict[str, float] = defaultdict(float)
        for stage in device_stages(self.deployment):
            for (_, kind), each in stage.matrix_flops.items():
                flops[kind] += each
        return max(flops, key=lambda kind: flops[kind])

    @property
    def peak_flops(self) -> float:
        return self.accelerator.peak(self.arithmetic)

    @property
    def ridge(self) -> float:
        return self.peak_flops / self.accelerator.bandwidth

    @property
    def parallel(self) -> bool:
        return self.deployment.plan.devices > 1


def plain(report: PhasesReport) -> str:
    """The textbook's own layout, and under it the floor with the last row's logits only."""
    lines = [*about(report), "", prefill_title(report), aligned(heads(report, "prompt"))]
    lines += [aligned(prefill_cells(row, report.parallel)) for row in report.phases.prefill]
    for batch, rows in by_batch(report.phases.decode):
        lines += ["", decode_title(report, batch), aligned(heads(report, "context"))]
        lines += [aligned(decode_cells(row, report.parallel)) for row in rows]
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
    rows = [prefill_cells(row, report.parallel) for row in report.phases.prefill]
    console.print(table(prefill_title(report), heads(report, "prompt"), rows, "bright_blue"))
    for batch, own in by_batch(report.phases.decode):
        rows = [decode_cells(row, report.parallel) for row in own]
        console.print(table(decode_title(report, batch), heads(report, "context"), rows, "dark_orange"))
    console.print(*map(Text, closing(report)), sep="\n")


def about(report: PhasesReport) -> list[str]:
    own, spec, gpu = report.deployment, report.deployment.spec, report.accelerator
    kib = f"{kv_bytes_per_token(spec, own.kv_bytes) / 1024:.1f}".removesuffix(".0")
    active, every = matmul_parameters(spec), all_matmul_parameters(spec)
    weights = f"{every / 1e9:.2f}B" if active == every else f"{active / 1e9:.2f}B of {every / 1e9:.2f}B"
    gigabytes = matmul_bytes(spec, own.storage) / 1e9
    lines = [
        f"{spec.name}: {weights} matmul weights, {gigabytes:.1f} GB in {own.storage.name.upper()}, "
        f"KV {kib} KiB/token",
        f"{gpu.title}: ridge point {report.ridge:.0f} FLOP/byte",
    ]
    if report.arithmetic not in ("bf16", "fp16"):
        lines.append(
            f"{own.storage.name.upper()} weights multiply as {report.arithmetic.upper()} at the most: "
            f"{report.peak_flops / 1e12:g} TFLOP/s here"
        )
    elif own.storage.name not in ("bf16", "fp16"):
        lines.append(
            f"{own.storage.name.upper()} is how weights are stored: arithmetic counts at the "
            f"{gpu.arithmetic.upper()} peak, {report.peak_flops / 1e12:g} TFLOP/s"
        )
    elif gpu.arithmetic != "bf16":
        lines.append(f"{gpu.title} has no BF16: arithmetic counts at its {gpu.arithmetic.upper()} peak")
    if active != every:
        lines.append(
            "GB and t_mem count the experts that uniform routing touches, E(1 - (1 - k/E)^rows); "
            "the floor, those of one row"
        )
    if report.parallel:
        largest = max(resident_bytes(spec, own.storage, own.plan))
        whose = "one device's of each stage, added up" if own.plan.pp > 1 else "one device's"
        lines.append(
            f"{own.plan}, {own.plan.devices} devices: FLOPs and bytes are {whose}, of up to "
            f"{largest / 1e9:.1f} GB of weights; t_link is communication, which no floor counts"
        )
    return lines


def heads(report: PhasesReport, first: str) -> tuple[str, ...]:
    *figures, bound, speed = HEADS
    return (first, *figures, *("t_link ms",) * report.parallel, bound, speed)


def prefill_title(report: PhasesReport) -> str:
    rows = "" if report.logits == "all" else ", logits of the last token only"
    return f"Prefill of one prompt ({of_experts(report, 'TTFT')}){rows}"


def decode_title(report: PhasesReport, batch: int) -> str:
    return f"One decode step, batch {batch} ({of_experts(report, 'inter-token latency')})"


def of_experts(report: PhasesReport, latency: str) -> str:
    """What a table bounds: where experts are routed, only on the average."""
    routed = any(isinstance(layer.feed_forward, MoE) for layer in report.deployment.spec.layers)
    return (
        f"roofline of {latency}, experts as uniform routing touches them"
        if routed
        else (f"roofline lower bound on {latency}")
    )


def aligned(cells: Sequence[str]) -> str:
    widths = WIDTHS if len(cells) == len(WIDTHS) else (*WIDTHS[:6], *WIDTHS[7:])
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def prefill_cells(row: PhaseRow, parallel: bool) -> tuple[str, ...]:
    return (
        f"{row.tokens}",
        f"{row.flops / 1e9:.0f}",
        f"{row.bytes / 1e9:.1f}",
        f"{row.intensity:.0f}",
        f"{row.compute_s * 1e3:.2f}",
        f"{row.memory_s * 1e3:.2f}",
        *(f"{row.communication_s * 1e3:.2f}",) * parallel,
        SHORT.get(row.bound, row.bound),
        f"{row.tokens_per_s:.0f}",
    )


def decode_cells(row: PhaseRow, parallel: bool) -> tuple[str, ...]:
    return (
        f"{row.tokens}",
        f"{row.flops / 1e9:.1f}",
        f"{row.bytes / 1e9:.2f}",
        f"{row.intensity:.1f}",
        f"{row.compute_s * 1e3:.3f}",
        f"{row.memory_s * 1e3:.2f}",
        *(f"{row.communication_s * 1e3:.2f}",) * parallel,
        SHORT.get(row.bound, row.bound),
        f"{row.tokens_per_s:.0f}",
    )


def by_batch(rows: Iterable[PhaseRow]) -> list[tuple[int, list[PhaseRow]]]:
    return [(batch, list(own)) for batch, own in groupby(rows, lambda row: row.batch)]


def closing(report: PhasesReport) -> list[str]:
    """Where prefill turns, the request's split, and the tighter floor."""
    own, request = report.phases, report.phases.request
    per_byte = 16 / report.deployment.storage.linear.bits_per_weight
    rows = "tokens in the batch" if per_byte == 1 else f"{per_byte:.3g} x tokens in the batch"
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
        f"Strict floor, logits of the last prompt token only and exact causal pairs: prefill of "
        f"{request.prompt_tokens} tokens {request.prefill_floor_s * 1e3:.2f} ms"
        + (f", compute-bound from {own.crossover_prompt_floor}" if own.crossover_prompt_floor else ""),
        *pipeline(report.deployment.plan),
    ]


def pipeline(plan: Plan) -> list[str]:
    """What stages cost: they come one after the other, and wait unless as many passes are under way."""
    if plan.pp == 1:
        return []
    many = 4 * plan.pp
    return [
        f"{plan.pp} stages one after the other: times are their sum. With one pass under way they wait "
        f"{bubble(plan, 1) * 100:.0f}% of the time, with {many} in a row {bubble(plan, many) * 100:.0f}%"
    ]


def milliseconds(value_s: float) -> str:
    """Whole ones, as the textbook; more digits where that would show nothing."""
    return f"{value_s * 1e3:.0f}" if value_s >= 0.0095 else f"{value_s * 1e3:.2g}"
