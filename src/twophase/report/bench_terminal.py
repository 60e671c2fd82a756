"""Pieces of the meter's terminal reports: headings, tables of numbers, notes."""

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

WIDTH = 110
HEAD = "bold"


def heading(title: str, rest: str = "", style: str = "") -> Text:
    return Text.assemble(("\n" + title, f"{HEAD} {style}".strip()), f"  {rest}" if rest else "")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """The first `left` columns are words, the rest numbers. On a narrow terminal words are wrapped, numbers
    stay whole."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for at, head in enumerate(heads):
        words = at < left
        made.add_column(head, justify="left" if words else "right", no_wrap=not words, vertical="bottom")
    for row in rows:
        made.add_row(*row)
    return made


def note_lines(notes: Sequence[str]) -> Iterable[Text]:
    if notes:
        yield heading("Notes")
        yield from (Text(f"- {note}") for note in notes)


def show(blocks: Iterable[RenderableType], console: Console | None = None) -> None:
    """A text that must not be wrapped stays one line, however long."""
    console = console or Console(highlight=False)
    width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    for block in blocks:
        whole = isinstance(block, Text) and bool(block.no_wrap)
        console.print(block, width=None if whole else width, soft_wrap=whole)


def as_text(blocks: Iterable[RenderableType]) -> str:
    """Plain lines without colours or trailing blanks."""
    out = StringIO()
    show(blocks, Console(file=out, width=WIDTH, highlight=False, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
