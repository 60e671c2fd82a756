"""Accelerators: a table of many, all about one; plain text, rich on a terminal, JSON."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from twophase.hardware.accelerator import Accelerator
from twophase.hardware.entry import entry_of
from twophase.report.aligned import aligned

if TYPE_CHECKING:
    from rich.console import Console

HEADS = ("vendor", "name", "bf16", "fp8", "fp4", "GiB", "GB", "TB/s", "ridge", "link GB/s", "$/h")
LEGEND = (
    "bf16, fp8, fp4: dense TFLOP/s (fp16 or fp32 where a device has no bf16: f16, f32); GiB: memory from the "
    "driver; GB: as marketed; ridge: FLOP/byte in 16 bits; link: one way, to the others of its node; "
    "$/h: indicative, on demand; `twophase hardware NAME` has its date and all sources"
)
LEFT = ("vendor", "name")


def to_json(accelerators: Iterable[Accelerator], one: bool) -> str:
    """One document: the accelerator asked for, or {accelerators: [...]}, each as in a file, in SI units."""
    every = [document(each) for each in accelerators]
    return json.dumps(
        every[0] if one else {"accelerators": every}, indent=2, ensure_ascii=False, allow_nan=False
    )


def document(own: Accelerator) -> dict[str, Any]:
    return {
        "name": own.name,
        **entry_of(own),
        "arithmetic": own.arithmetic,
        "peak_flops": own.peak_flops,
        "ridge_flop_per_byte": own.ridge,
    }


def plain_table(accelerators: Sequence[Accelerator]) -> str:
    return "\n".join([*aligned(HEADS, [*map(cells, accelerators)], LEFT), "", LEGEND])


def rich_table(accelerators: Iterable[Accelerator], console: "Console") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for head in HEADS:
        table.add_column(head, justify="left" if head in LEFT else "right", no_wrap=True)
    for each in accelerators:
        vendor, name, *figures = cells(each)
        table.add_row(Text(vendor, "dim"), Text(name, "bold"), *figures)
    console.print(table)
    console.print(Text(LEGEND, "dim"))


def rich_one(own: Accelerator, console: "Console") -> None:
    from rich.text import Text

    title, *lines = about(own)
    console.print(Text(title, "bold"))
    for line in lines:
        console.print(Text(line, "dim" if line.startswith("    ") else ""))


def plain_one(own: Accelerator) -> str:
    return "\n".join(about(own))


def cells(own: Accelerator) -> tuple[str, ...]:
    mark = {"fp16": "f16 ", "fp32": "f32 ", "tf32": "f32 "}.get(own.arithmetic, "")
    return (
        own.vendor,
        own.name,
        f"{mark}{own.peak_flops / 1e12:.4g}",
        *(f"{own.flops[dtype] / 1e12:.5g}" if dtype in own.flops else "" for dtype in ("fp8", "fp4")),
        f"{own.memory_bytes / 2**30:.1f}",
        f"{own.marketed_bytes / 1e9:g}",
        f"{own.bandwidth / 1e12:.3g}",
        f"{own.ridge:.0f}",
        f"{own.intra.bandwidth / 1e9:g}",
        "" if own.price_per_hour is None else f"{own.price_per_hour:.2f}",
    )


def about(own: Accelerator) -> list[str]:
    """Every figure, and under each group where it comes from."""
    scale, unit = (1e12, "T") if own.peak_flops >= 1e12 else (1e9, "G")
    peaks = ", ".join(f"{dtype} {own.flops[dtype] / scale:g}" for dtype in own.flops)
    apart = "" if own.devices_per_node == 1 else f" among {own.devices_per_node} devices"
    lines = [
        f"{own.title} ({own.name}): {own.vendor + ', ' if own.vendor else ''}{own.kind}",
        f"peak, dense    {peaks} {unit}FLOP/s",
        *source(own, "flops"),
        f"memory         {own.memory_bytes / 2**30:.2f} GiB = {own.memory_bytes / 1e9:.1f} GB from the "
        f"driver, {own.marketed_bytes / 1e9:.4g} GB marketed",
        *source(own, "memory"),
        f"bandwidth      {own.bandwidth / 1e9:g} GB/s",
        *source(own, "bandwidth"),
        f"ridge point    {own.ridge:.0f} FLOP/byte in {own.arithmetic.upper()}",
        f"link in node   {own.intra.bandwidth / 1e9:g} GB/s one way, {own.intra.latency_s * 1e6:g} µs{apart}",
        f"link beyond    {own.inter.bandwidth / 1e9:g} GB/s one way, {own.inter.latency_s * 1e6:g} µs",
        *source(own, "links"),
    ]
    if own.price_per_hour is not None:
        when = f" ({own.price_date})" if own.price_date else ""
        lines += [
            f"price          {own.price_per_hour:.2f} USD an hour, indicative{when}",
            *source(own, "price"),
        ]
    return lines + ([f"also known as  {', '.join(own.aliases)}"] if own.aliases else [])


def source(own: Accelerator, figure: str) -> list[str]:
    return [f"    source: {own.sources[figure]}"] if figure in own.sources else []
