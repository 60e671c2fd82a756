"""What the meter's pages are built from: the template, tables, figures, notes. Nothing from the network."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from twophase import __version__
from twophase.report.bench_svg import STYLE


def fill(**parts: str) -> str:
    """bench.html with its parts; they are safe HTML already."""
    template = Template((files("twophase.report") / "bench.html").read_text(encoding="utf-8"))
    return template.substitute(plot_style=STYLE, version=__version__, **parts)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 0) -> str:
    """Cells are text; a newline in a head begins its smaller second line. `left`: columns of words."""
    head = "".join(_head(each, at < left) for at, each in enumerate(heads))
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{_aligned(at < left)}>{escape(cell)}</td>" for at, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
    )


def _head(text: str, left: bool) -> str:
    first, _, second = text.partition("\n")
    return f'<th scope="col"{_aligned(left)}>{escape(first)}<small>{escape(second) or "&nbsp;"}</small></th>'


def _aligned(left: bool) -> str:
    return ' class="left"' if left else ""


def figure(title: str, caption: str, drawn: str) -> str:
    return (
        f"<figure><figcaption><b>{escape(title)}</b><span>{escape(caption)}</span></figcaption>"
        f"{drawn}</figure>"
    )


def fact(term: str, value: str, rest: str) -> str:
    return f"<div><dt>{escape(term)}</dt><dd>{escape(value)}<small>{escape(rest)}</small></dd></div>"


def section(title: str, body: str, aside: str = "") -> str:
    said = f'<p class="aside">{escape(aside)}</p>' if aside else ""
    return f"<section>\n<h2>{escape(title)}</h2>\n{said}{body}\n</section>" if body else ""


def lead(text: str, aside: str) -> str:
    return f'<p class="lead">{escape(text)}</p><p class="aside">{escape(aside)}</p>'


def listing(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in lines) + "</ul>" if lines else ""


def words(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>" for name, meaning in pairs)
    return f'<dl class="words">{rows}</dl>'


def block(text: str) -> str:
    return f'<pre class="scroll">{escape(text)}</pre>'


def warning(text: str) -> str:
    return f'<p class="warning">{escape(text)}</p>' if text else ""
