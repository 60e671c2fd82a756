"""Cells of bench/engine.py, their shares of the roof, and the tables made of them."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

from account import decode_bytes, decode_flops, prefill_flops

OURS = "twophase"
Phase = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Cell:
    phase: Phase
    batch: int
    context: int  # prompt tokens, or tokens in the KV cache as decoding begins

    @property
    def unit(self) -> Literal["tok/s", "ms"]:
        return "ms" if self.phase == "decode" and self.batch == 1 else "tok/s"

    def value(self, seconds: float) -> float:
        """tokens/s of prompt, ms a token at batch 1, tokens/s of all sequences."""
        if self.unit == "ms":
            return 1e3 * seconds
        return (self.context if self.phase == "prefill" else self.batch) / seconds

    def cost(self, weight_bytes: float, kv_item_bytes: float) -> tuple[float, float]:
        """(FLOPs, bytes)"""
        if self.phase == "prefill":
            return prefill_flops(self.context), decode_bytes(1, self.context, weight_bytes, kv_item_bytes)
        return decode_flops(self.batch, self.context), decode_bytes(
            self.batch, self.context, weight_bytes, kv_item_bytes
        )

    def __str__(self) -> str:
        if self.phase == "prefill":
            return f"prefill {self.context}"
        return f"decode {self.context}" if self.batch == 1 else f"batch {self.batch}"


CELLS = (
    *(Cell("prefill", 1, context) for context in (128, 512, 2048)),
    *(Cell("decode", 1, context) for context in (128, 2048)),
    *(Cell("decode", batch, 128) for batch in (4, 8, 16)),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement, and the best that the probes just before and after it reached."""

    cell: Cell
    seconds: float
    flops: float
    bytes: float
    roof_flops_per_s: float
    roof_bytes_per_s: float

    @property
    def mfu(self) -> float:
        return self.flops / self.seconds / self.roof_flops_per_s

    @property
    def mbu(self) -> float:
        return self.bytes / self.seconds / self.roof_bytes_per_s

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"mfu": self.mfu, "mbu": self.mbu}

    def __str__(self) -> str:
        value = f"{self.cell.value(self.seconds):8.1f} {self.cell.unit:5}"
        roofs = f"{self.roof_flops_per_s / 1e9:.0f} GFLOP/s {self.roof_bytes_per_s / 1e9:.1f} GB/s"
        return f"{self.cell!s:13}{value}  MFU {self.mfu:.2f}  MBU {self.mbu:.2f}  of {roofs}"


def seconds_of(figures: list[Figure], cell: Cell) -> float:
    return median(figure.seconds for figure in figures if figure.cell == cell)


def share_of(figures: list[Figure], cell: Cell) -> float:
    """Of the roof that bounds this cell: the larger of MFU and MBU, its median over the rounds."""
    mine = [figure for figure in figures if figure.cell == cell]
    return max(median(figure.mfu for figure in mine), median(figure.mbu for figure in mine))


def markdown(results: dict[str, dict[str, Any]], machine: str, rounds: int) -> str:
    """One table a format. Results: by format and engine, with `figures`, `settings`."""
    parts = [f"{machine}; medians of {rounds} rounds.\n"]
    for weights, engines in results.items():
        if engines:
            parts += [f"### {weights}\n", _table(engines), _notes(engines)]
    return "\n".join(parts)


def _table(engines: dict[str, Any]) -> str:
    figures = {name: each["figures"] for name, each in engines.items()}
    rows = [["engine", *(f"{cell}, {cell.unit}" for cell in CELLS)], ["---", *["--:"] * len(CELLS)]]
    for name, mine in figures.items():
        cells = [
            f"{_digits(cell.value(seconds_of(mine, cell)))} ({share_of(mine, cell):.2f})" for cell in CELLS
        ]
        rows.append([name, *cells])
    for name in figures:
        if name != OURS and OURS in figures:
            rows.append([f"{OURS} ÷ {name}", *(f"{_faster(figures, name, cell):.2f}" for cell in CELLS)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _faster(figures: dict[str, list[Figure]], name: str, cell: Cell) -> float:
    """How many times as fast as that peer ours is."""
    return seconds_of(figures[name], cell) / seconds_of(figures[OURS], cell)


def _notes(engines: dict[str, Any]) -> str:
    figures = [figure for each in engines.values() for figure in each["figures"]]
    flops = [figure.roof_flops_per_s / 1e9 for figure in figures]
    read = [figure.roof_bytes_per_s / 1e9 for figure in figures]
    roofs = (
        f"Roofs beside them: {min(flops):.0f} to {max(flops):.0f} GFLOP/s, median {median(flops):.0f}; "
        f"{min(read):.1f} to {max(read):.1f} GB/s, median {median(read):.1f}."
    )
    said = [f"- {name}: {each['settings']}" for name, each in engines.items() if each["settings"]]
    return "\n".join([roofs, "", *said, ""])


def _digits(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def put_between_markers(text: str, tables: str, script: str = "bench/engine.py") -> str:
    """ValueError where the text has no such markers."""
    begin, end = f"<!-- {script} -->", f"<!-- end of {script} -->"
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}\n\n{tables}\n{end}{tail}"
