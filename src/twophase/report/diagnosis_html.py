"""A diagnosis as one HTML page that needs nothing else: light, dark, phone, print, offline."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from twophase.advise.diagnosis import Advice, DecodeRow, Diagnosis, Phase, PrefillRow, RequestSplit
from twophase.advise.evidence import batch_series, context_series
from twophase.report import charts
from twophase.report.vega import Spec, svg
from twophase.report.wording import (
    fit_formula,
    headline,
    label,
    price_of,
    scope,
    turned_on,
    turning_points,
)
from twophase.units import count, duration, milliseconds, percent, quantity, significant, times

DOT, FIT, FLOOR = (
    '<i class="dot {0}"></i>{1}',
    '<i class="line {0}"></i>{1}',
    '<i class="dash"></i>floor',
)


def page(diagnosis: Diagnosis) -> str:
    """The whole page. Raises InputError where vl-convert, which draws its charts, is missing."""
    request, verdict = diagnosis.request, diagnosis.verdict
    template = Template((files("twophase.report") / "diagnosis.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(f"{label(diagnosis)}: where its time goes"),
        model=escape(diagnosis.model),
        random=' <span class="random">random weights</span>' if diagnosis.weights == "random" else "",
        headline=headline(verdict).replace(verdict.dominant, coloured(verdict.dominant), 1),
        summary=escape(verdict.summary),
        request_about=request_about(request),
        bars="\n".join(bars(request)),
        facts="\n".join(facts(diagnosis)),
        helps="\n".join(levers([each for each in verdict.advice if each.helps])),
        idle="\n".join(levers([each for each in verdict.advice if not each.helps])),
        charts="\n".join(figures(diagnosis)),
        turning=escape(" ".join((*turning_points(diagnosis), fit_formula(diagnosis.ttft_fit)))),
        prefill_table=prefill_table(diagnosis.prefill),
        decode_table=decode_table(diagnosis.decode),
        notes=notes(diagnosis.notes),
        version=version("twophase"),
        seconds=duration(diagnosis.seconds),
    )


def coloured(phase: Phase) -> str:
    return f'<span class="{phase}">{phase}</span>'


def request_about(request: RequestSplit) -> str:
    source = "extrapolated from the measured passes" if request.extrapolated else "run whole"
    tokens = f"{count(request.prompt_tokens)} tokens in, {count(request.output_tokens)} out"
    return f"One request alone: {tokens}; {source}."


def bars(request: RequestSplit) -> Iterable[str]:
    """The request measured, and its floor beneath on the same scale."""
    longest = max(request.prefill_s + request.decode_s, request.prefill_floor_s + request.decode_floor_s)
    for name, prefill, decode in (
        ("measured", request.prefill_s, request.decode_s),
        ("floor", request.prefill_floor_s, request.decode_floor_s),
    ):
        track = "".join(
            f'<span class="{phase[0]}" style="width:{100 * seconds / longest:.2f}%">'
            f"{inside(phase, seconds, seconds / longest) if name == 'measured' else ''}</span>"
            for phase, seconds in (("prefill", prefill), ("decode", decode))
        )
        whole = prefill + decode
        yield (
            f'<div class="bar {name}"><span class="name">{name}</span><div class="track">{track}</div>'
            f'<span class="whole">{duration(whole)}</span></div>'
        )
    yield split_table(request)


def inside(phase: str, seconds: float, width: float) -> str:
    """What stands in a segment of the bar, where it is wide enough on a phone too."""
    return f"{phase} {duration(seconds)}" if width > 0.36 else phase if width > 0.18 else ""


def split_table(request: RequestSplit) -> str:
    total = request.prefill_s + request.decode_s
    rows = (
        ("prefill", request.prefill_s, request.prefill_floor_s),
        ("decode", request.decode_s, request.decode_floor_s),
    )
    cells = [
        (
            f'<span class="{phase}">{phase}</span>',
            milliseconds(measured),
            percent(measured / total),
            milliseconds(floor),
            times(measured / floor) if floor else "–",
        )
        for phase, measured, floor in rows
    ]
    heads = (("", ""), ("measured", "ms"), ("share", ""), ("floor", "ms"), ("measured", "÷ floor"))
    return f'<div class="split scroll">{table(heads, cells)}</div>'


def facts(diagnosis: Diagnosis) -> Iterable[str]:
    roofs = diagnosis.roofs
    slowest = (
        quantity(roofs.flops_per_s_range[0], "FLOP/s"),
        quantity(roofs.read_bytes_per_s_range[0], "B/s"),
    )
    for term, value, rest in (
        (
            "Peak arithmetic, measured",
            quantity(roofs.flops_per_s, "FLOP/s"),
            f"{roofs.compute}; slowest probe {slowest[0]}",
        ),
        ("Read bandwidth, measured", quantity(roofs.read_bytes_per_s, "B/s"), f"slowest probe {slowest[1]}"),
        (
            "Ridge",
            f"{significant(roofs.ridge_flop_per_byte)} FLOP/byte",
            f"{roofs.cpu}, {roofs.threads} threads",
        ),
        (
            f"Weights, {diagnosis.weight_format}",
            quantity(diagnosis.weight_bytes, "B"),
            f"KV cache {quantity(diagnosis.kv_bytes_per_token, 'B')} a token",
        ),
    ):
        yield f"<div><dt>{escape(term)}</dt><dd>{value}<small>{escape(rest)}</small></dd></div>"


def levers(advice: Sequence[Advice]) -> Iterable[str]:
    """List items; a bar shows how much of the time each takes off."""
    for each in advice:
        factor = each.gain or each.throughput_gain
        size = ""
        if each.helps and each.gain:
            cut = 100 * (1 - 1 / each.gain)
            size = f'<div class="size"><span class="{each.phase[0]}" style="width:{cut:.1f}%"></span></div>'
        elif each.helps:
            size = '<div class="size none"></div>'
        gain = times(factor) if factor else "–"
        meant = f" · {scope(each)}" if scope(each) else ""
        yield (
            f'<li><div class="gain">{gain}</div>{size}<div><b>{escape(each.change)}</b>'
            f'<span class="on {each.phase}">{each.phase}{meant}</span>'
            f'<div class="why">{escape(each.why)}</div>{cost(each)}</div></li>'
        )


def cost(own: Advice) -> str:
    """Of a lever that helps: its price, and how to turn it on."""
    said = (("price", price_of(own.price)), ("on", turned_on(own.flags)))
    lines = [f'<div class="why">{title}: {escape(text)}</div>' for title, text in said if own.helps and text]
    return "".join(lines)


def figures(diagnosis: Diagnosis) -> Iterable[str]:
    """The charts; a series of one point is left to the table."""
    roofs, prefill, decode = diagnosis.roofs, diagnosis.prefill, diagnosis.decode
    contexts, batches = context_series(decode), batch_series(decode)
    measured = {phase: DOT.format(phase, "measured") for phase in ("prefill", "decode")}
    yield from (
        figure(
            "Roofline",
            "Every measured pass under the machine’s roof.",
            DOT.format("prefill", "prefill, prompt tokens") + DOT.format("decode", "decode"),
            charts.roofline(roofs, prefill, decode),
        ),
        figure(
            "TTFT against prompt length",
            turning_points(diagnosis)[0],
            measured["prefill"] + FIT.format("prefill", "fit") + FLOOR,
            charts.ttft_curve(prefill, diagnosis.ttft_fit),
        ),
    )
    if len(contexts) > 1:
        yield figure(
            "ITL against context",
            f"Batch 1: {duration(contexts[0].itl_s)} at {count(contexts[0].context)} tokens, "
            f"{duration(contexts[-1].itl_s)} at {count(contexts[-1].context)}.",
            measured["decode"] + FLOOR,
            charts.itl_by_context(contexts),
        )
    if len(batches) > 1:
        yield figure(
            "ITL against batch",
            f"{significant(1 / batches[0].itl_s)} tokens/s at batch 1, "
            f"{significant(batches[-1].batch / batches[-1].itl_s)} at batch {batches[-1].batch}.",
            measured["decode"] + FLOOR,
            charts.itl_by_batch(batches),
        )


def figure(title: str, caption: str, key: str, spec: Spec) -> str:
    return (
        f"<figure><figcaption><b>{title}</b><span>{escape(caption)}</span></figcaption>"
        f'{svg(spec, title)}<p class="key">{key}</p></figure>'
    )


def table(heads: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are safe HTML already; each head has a second, smaller line."""
    head = "".join(
        f'<th scope="col">{first}<small>{second or "&nbsp;"}</small></th>' for first, second in heads
    )
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def prefill_table(rows: Sequence[PrefillRow]) -> str:
    heads = (
        *(("prompt", "tokens"), ("TTFT", "measured, ms"), ("TTFT", "floor, ms"), ("measured", "÷ floor")),
        *(("MFU", ""), ("MBU", ""), ("prompt", "tokens/s"), ("bound by", "")),
    )
    return table(
        heads,
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


def decode_table(rows: Sequence[DecodeRow]) -> str:
    heads = (
        *(("batch", "sequences"), ("context", "tokens"), ("ITL", "measured, ms"), ("ITL", "floor, ms")),
        *(("measured", "÷ floor"), ("MFU", ""), ("MBU", ""), ("output", "tokens/s"), ("bound by", "")),
    )
    return table(
        heads,
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


def notes(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return "<h3>Notes</h3>\n<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
