"""Levers in the terminal, and as plain aligned text where it is not one."""

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from twophase.advise.advising import Advising, Lever
from twophase.advise.diagnosis import Phase
from twophase.advise.effects import AIMS, Aim, Effect
from twophase.advise.figures import GOOD
from twophase.report.bench_terminal import HEAD, as_text, heading, note_lines, show, table
from twophase.report.simulation import KNOWN
from twophase.report.wording import price_of, turned_on
from twophase.units import count, duration, percent, plural, significant, times

NAMES: dict[Aim, str] = {
    "ttft": "TTFT",
    "itl": "ITL",
    "throughput": "throughput",
    "cost": "cost",
    "goodput": "goodput",
}
FORMULAS = (
    "gains: TTFT, ITL and cost before / after, throughput and goodput after / before; below 1 is worse",
    "throughput, cost: at the most, where all come at once, or of so many clients; TTFT, ITL: at the load",
    f"goodput: requests/s up to which {percent(GOOD)} of them meet the limits; of so many clients, "
    "those that do",
    "low..high: four in five; a change of kernels carries the errors of both, others the chance of arrivals",
)


def render(own: Advising, console: Console | None = None) -> None:
    show(blocks(own), console)


def plain(own: Advising) -> str:
    return as_text(blocks(own))


def blocks(own: Advising) -> Iterable[RenderableType]:
    setup, estimate = own.setup, own.pool.estimate
    where = f"{setup.devices} × {setup.accelerator.title}" if setup.devices > 1 else setup.accelerator.title
    yield Text.assemble(
        (f"{setup.model.spec.name} on {where}", HEAD),
        f"  {setup.model.storage.name} weights, {setup.kv} KV cache, {setup.policy}\n"
        f"{load_line(own)}\n{estimate.provenance}: {KNOWN[estimate.provenance]}"
        + ("; extrapolated from another accelerator's" if estimate.extrapolated else ""),
    )
    if own.overload:
        yield Text(f"{own.overload}.", HEAD)
    yield heading("As it is", f"{percent(own.point.share('prefill'))} prefill, at full load "
                  f"{percent(own.full_prefill_share)}; {batch_line(own)}")  # fmt: skip
    yield table(("", "a pass", "arithmetic", "memory", "bound by"), phase_rows(own))
    yield Text("\n" + "; ".join(figure_words(own)))
    for title, chosen in groups(own):
        if chosen:
            yield heading(title)
            yield lever_table(chosen, own.aim, own.before.grows)
    yield from note_lines([f"{each}." for each in own.notes])
    yield heading("Formulas")
    yield Text("\n".join(FORMULAS), "dim")


def groups(own: Advising) -> Iterable[tuple[str, Sequence[Lever]]]:
    name = NAMES[own.aim]
    pulled = [each for each in own.levers if each.method != "none"]
    yield f"What would help {name}", [each for each in pulled if each.helps]
    yield f"What would not help {name}", [each for each in pulled if not each.helps]
    yield "What can't be pulled here", [each for each in own.levers if each.method == "none"]


def load_line(own: Advising) -> str:
    load = own.load
    sizes = f"{count(load.prompt_tokens)} tokens in, {count(load.output_tokens)} out on average"
    if load.shared:
        sizes += f", {percent(load.shared)} of each prompt shared"
    if load.clients is not None:
        return f"{sizes}; {count(load.clients)} at once"
    rate = load.rate if load.recorded is None else load.recorded.rate
    return f"{sizes}; {significant(rate or 0.0)} requests/s"


def batch_line(own: Advising) -> str:
    return f"a decode pass has {significant(own.point.batch)} sequences of {count(own.point.context)} tokens"


def phase_rows(own: Advising) -> Iterable[tuple[str, ...]]:
    phases: tuple[Phase, ...] = ("prefill", "decode")
    for phase in phases:
        work = own.point.work(phase)
        name = "prefill, a prompt" if phase == "prefill" else "decode, a pass"
        times_ = (duration(each) for each in (work.seconds, work.compute_s, work.memory_s))
        yield (name, *times_, work.bound)


def figure_words(own: Advising) -> Iterable[str]:
    made = own.before
    if made.grows:
        yield f"TTFT grows with the queue ({duration(made.ttft_s)} over {plural(own.requests, 'request')})"
    else:
        yield f"TTFT {duration(made.ttft_s)} (p99 {duration(made.ttft_p99_s)})"
    yield f"ITL {duration(made.itl_s)} (p99 {duration(made.gap_p99_s)})"
    yield (
        f"at most {significant(made.requests_per_s)} requests/s, "
        f"{significant(made.output_tokens_per_s)} output tokens/s"
    )
    if made.usd_per_million_output_tokens is not None:
        yield f"${significant(made.usd_per_million_output_tokens)} for a million output tokens"
    if made.good is not None and made.goodput_per_s is not None:
        yield f"{percent(made.good)} within the limits, {significant(made.goodput_per_s)} requests/s"
    if made.most_good_per_s is not None:
        yield f"{percent(GOOD)} within them up to {significant(made.most_good_per_s)} requests/s"


def lever_table(levers: Sequence[Lever], aim: Aim, grew: bool) -> Table:
    """grew: the queue, before any lever."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(justify="right", no_wrap=True)
    made.add_column()
    for each in levers:
        effect = each.effects.get(aim)
        if aim == "ttft" and (grew or grows(each)):
            effect = None
        made.add_row(gain(effect), Text.assemble((each.title, HEAD), f"  {each.known.phase}"))
        for line in lines(each, aim, grew):
            made.add_row("", line)
    return made


def grows(own: Lever) -> bool:
    return own.figures is not None and own.figures.grows


def lines(own: Lever, aim: Aim, grew: bool) -> Iterable[str]:
    if own.effects:
        yield "; ".join(said for name in AIMS if (said := effect_words(name, own, aim, grew)))
    yield own.why
    if own.assumed:
        yield f"Assumed: {own.assumed}"
    if own.helps and own.price:
        yield f"Price: {price_of(own.price)}"
    if own.helps and own.flags:
        yield f"On: {turned_on(own.flags)}"


def effect_words(name: Aim, own: Lever, aim: Aim, grew: bool) -> str:
    """A queue that grows, before or after, has no TTFT to compare."""
    effect = own.effects[name]
    if name == "ttft" and grows(own):
        return "TTFT grows on and on"
    if name == "ttft" and grew and effect.after is not None:
        return f"TTFT {duration(effect.after)}, as the queue no longer grows"
    if effect.gain is None:
        return ""
    said = f"{NAMES[name]} {times(effect.gain)}"
    if name == aim and effect.gain_range is not None:
        said += f" ({effect.gain_range[0]:.2f}..{effect.gain_range[1]:.2f})"
    if name in ("ttft", "itl") and effect.before is not None and effect.after is not None:
        said += f", {duration(effect.before)} → {duration(effect.after)}"
    return said


def gain(effect: Effect | None) -> str:
    return times(effect.gain) if effect is not None and effect.gain is not None else "–"
