"""A server's two curves and the verdict on them as one HTML page that needs nothing else."""

from collections.abc import Iterable
from html import escape

from twophase.meter.curves import Curves
from twophase.meter.itl_law import itl_at
from twophase.meter.ttft_curve import ttft_at
from twophase.meter.verdict import Lever, Verdict
from twophase.report.bench_curves import (
    ServerDiagnosis,
    all_notes,
    cached,
    decode_cells,
    decode_heads,
    fit_text,
    law_text,
    prefill_cells,
    prefill_heads,
    scope,
    terms_of,
)
from twophase.report.bench_page import fact, figure, fill, lead, listing, section, table, warning, words
from twophase.report.bench_rows import error_line, server, title
from twophase.report.bench_svg import Marks, Point, axis, chart
from twophase.units import count, duration, percent, significant, times

STEPS = 120
MOST_LINES = 4
WORDS = (
    ("TTFT", "Time to first token: from the request's last byte sent to the first token's arrival."),
    ("ITL", "Inter-token latency: from one token to the next while all sequences of a batch decode."),
    ("Floor", "The least time that the accelerator's peaks allow: arithmetic or compulsory bytes."),
    ("MFU", "Operations that the model needs / (measured time × peak FLOP/s)."),
    ("MBU", "Compulsory bytes / (measured time × memory bandwidth)."),
    ("Interval", "Of 95 % confidence: from the scatter of the points about the curve."),
)


def page(own: ServerDiagnosis) -> str:
    """The whole page."""
    curves, verdict = own.curves, own.verdict
    sentences = " ".join(each.sentence for each in verdict.phases)
    body = [
        section("What would pay", levers(verdict), _request_line(verdict)),
        section("What was measured", f'<div class="charts">{"".join(figures(own))}</div>'),
        section(
            "Prefill",
            _paragraphs(fit_text(own)) + table(prefill_heads(own), prefill_cells(own)),
            f"One prompt at a time, each new from its first token{cached(curves)}.",
        ),
        section(
            "Decode",
            _paragraphs(law_text(own)) + table(decode_heads(own), decode_cells(own)),
            "All sequences of a batch together, after the last one's first token.",
        ),
        section("Notes", listing(all_notes(own))),
        section("The words", words(WORDS)),
    ]
    return fill(
        title=escape(f"{title(own.run)}: where its time goes"),
        about=f"twophase diagnose · <b>{escape(title(own.run))}</b>",
        headline=escape(verdict.headline),
        lead=lead(
            sentences, f"{server(own.run)}, measured in {duration(curves.seconds)}. {error_line(own.error)}."
        ),
        warnings=warning(f"Partial: {own.run.partial}." if own.run.partial else ""),
        facts="\n".join(facts(own)),
        sections="\n".join(body),
        when=escape(f"a run of {own.run.began_at}"),
    )


def _request_line(verdict: Verdict) -> str:
    return (
        f"{count(verdict.prompt_tokens)} tokens in and {count(verdict.output_tokens)} out, alone: "
        f"{duration(verdict.seconds)}. Its time before ÷ after, each change by itself."
    )


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in text.splitlines())


def facts(own: ServerDiagnosis) -> Iterable[str]:
    fit, law, marks = own.curves.ttft, own.curves.itl, own.verdict.beside
    if fit:
        a, b, _ = fit.coefficients
        first = fit.floor_s.value if fit.floor_s else a
        yield fact("Before any token", duration(first), "what every request pays")
        yield fact("A prompt token", duration(b), f"{significant(1 / b)} tokens/s" if b else "nothing")
        bend = fit.bend_prompt_tokens
        if bend and bend.value <= fit.to_tokens:
            high = count(bend.high) if bend.high else "no limit"
            yield fact("TTFT bends from", count(bend.value), f"tokens; {count(bend.low)} to {high}")
        else:
            yield fact("TTFT bends from", "–", f"not up to {count(fit.to_tokens)} tokens")
    if law:
        yield fact("A decode pass", duration(law.pass_s.value), "before any sequence is counted")
    if marks and marks.weights_mbu:
        yield fact("MBU of that pass", percent(marks.weights_mbu), marks.title)


def levers(verdict: Verdict) -> str:
    if not verdict.levers:
        return ""
    return f'<ol class="levers">{"".join(map(lever, verdict.levers))}</ol>'


def lever(each: Lever) -> str:
    cut = 100 * (1 - 1 / each.gain)
    size = '<div class="size none"></div>'
    if not each.serves_more:
        size = f'<div class="size"><span class="{each.phase[0]}" style="width:{cut:.1f}%"></span></div>'
    meant = f" · {scope(each)}" if scope(each) else ""
    terms = "".join(f'<div class="why">{escape(line)}</div>' for line in terms_of(each))
    return (
        f'<li><div class="gain">{times(each.gain)}</div>{size}<div><b>{escape(each.change)}</b>'
        f'<span class="on {each.phase}">{each.phase}{meant}</span>'
        f'<div class="why">{escape(each.why)}</div>{terms}</div></li>'
    )


def figures(own: ServerDiagnosis) -> Iterable[str]:
    curves = own.curves
    if len(curves.prefill) > 1:
        yield figure("TTFT against prompt length", _bend_line(curves), ttft_chart(own))
    batches = sorted({each.batch for each in curves.decode})
    contexts = {each.context for each in curves.decode}
    if len(contexts) > 1:
        yield figure(
            "ITL against context", "Measured, and the law for each batch.", context_chart(curves, batches)
        )
    if len(batches) > 1:
        yield figure("Tokens a second against batch", "Of all sequences together.", batch_chart(curves))


def _bend_line(curves: Curves) -> str:
    fit = curves.ttft
    if fit is None:
        return "No curve could be fitted."
    said = "Measured, and the fit" + (", with the floor that short prompts pay" if fit.floor_s else "")
    return f"{said}."


def ttft_chart(own: ServerDiagnosis) -> str:
    points: list[Point] = [(each.prompt_tokens, each.ttft_s * 1e3) for each in own.curves.prefill]
    fit, marks = own.curves.ttft, own.verdict.beside
    best: list[Point] = []
    if marks:
        best = [(x, each.floor_s * 1e3) for (x, _), each in zip(points, marks.prefill, strict=True)]
    x = axis("prompt (tokens)", [px for px, _ in points], log=True)
    y = axis("TTFT (ms)", [py for _, py in (*points, *best)], log=True)
    series = [Marks("dash", best, "f", "floor", below=True)] if best else []
    if fit:
        low, high = points[0][0], points[-1][0]
        lengths = [low * (high / low) ** (i / STEPS) for i in range(STEPS + 1)]
        series.append(Marks("line", [(n, ttft_at(fit, n) * 1e3) for n in lengths], "p"))
        bend = fit.bend_prompt_tokens
        if bend and low < bend.value < high:
            series.append(Marks("vertical", [(bend.value, 0.0)], "f", f"bends at {count(bend.value)}"))
    return chart("TTFT against prompt length", x, y, [*series, Marks("dots", points, "p")])


def context_chart(curves: Curves, batches: list[int]) -> str:
    """A line for each batch, as far as its contexts were measured."""
    shown = sorted({batches[i * (len(batches) - 1) // (MOST_LINES - 1)] for i in range(MOST_LINES)})
    points = [each for each in curves.decode if each.batch in shown]
    x = axis("context (tokens)", [each.context for each in points], log=True)
    y = axis("ITL (ms)", [each.itl_s * 1e3 for each in points], zero=True)
    series = []
    for batch in shown:
        own = [each for each in points if each.batch == batch]
        low, high = min(each.context for each in own), max(each.context for each in own)
        if curves.itl and high > low:
            law = curves.itl
            lengths = [low * (high / low) ** (i / STEPS) for i in range(STEPS + 1)]
            line: list[Point] = [(n, itl_at(law, batch, n) * 1e3) for n in lengths]
            series.append(Marks("line", line, "q", f"batch {batch}", below=batch == shown[0]))
        dots: list[Point] = [(each.context, each.itl_s * 1e3) for each in own]
        series.append(Marks("dots", dots, "q"))
    return chart("ITL against context", x, y, series)


def batch_chart(curves: Curves) -> str:
    """The law at the shortest and the longest context that the largest batch was measured at."""
    points: list[Point] = [(each.batch, each.batch / each.itl_s) for each in curves.decode]
    most = max(each.batch for each in curves.decode)
    ends = sorted(each.context for each in curves.decode if each.batch == most)
    x = axis("batch (sequences)", [px for px, _ in points], log=True)
    y = axis("output tokens/s", [py for _, py in points], zero=True)
    series = []
    if curves.itl:
        for context in dict.fromkeys((ends[0], ends[-1])):
            sizes = [most ** (i / STEPS) for i in range(STEPS + 1)]
            line: list[Point] = [(n, n / itl_at(curves.itl, n, context)) for n in sizes]
            name = f"context {count(context)}"
            series.append(Marks("line", line, "q", name, below=context != ends[0]))
    return chart("Tokens a second against batch", x, y, [*series, Marks("dots", points, "q")])
