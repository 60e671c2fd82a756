"""A plan in words and rows, for the terminal and the page."""

from collections.abc import Iterable, Sequence
from math import isfinite

from twophase.plan.answer import DEARER, MORE, TRIALS, Answer, Change, Near
from twophase.plan.candidate import Candidate, Kind
from twophase.plan.search import Best
from twophase.plan.slo import Slo
from twophase.units import count, duration, percent, plural, significant

LOST = {
    "memory": "weights, reserve and one sequence don't fit its memory",
    "ttft": "even alone, too many prompts take longer than the TTFT limit",
    "tpot": "even alone, a decode pass takes longer than the TPOT limit",
    "slo": "even alone, too many requests miss one limit or the other",
    "capacity": "fewer replicas than the load's work needs by its deadlines",
}
FORMULAS = (
    "cost: devices × price of one an hour; E2E, TTFT, TPOT: the quantile that the attainment asks for",
    "a kind is ruled out by bounds alone: its own pass times, alone in a pass, all work at its best batch",
    "what no bound rules out is simulated in order of cost, so nothing cheaper is left untried",
)


def kind_words(own: Kind) -> str:
    at = own.layout
    parts = [str(at.plan) if at.devices > 1 else "one device"]
    parts += [f"{at.weights} weights"] if at.weights else []
    parts += [f"{at.kv} KV"] if at.kv != "bf16" else []
    return f"{', '.join(parts)}; {own.max_tokens} tokens, {own.max_sequences} sequences"


def short(own: Candidate) -> str:
    """2 × h100-sxm TP2 (fp8); split by phase: 1P + 2D × h100-sxm (fp8)."""
    at = own.serving.layout
    formats = ", ".join([at.weights or "own weights", *([f"{at.kv} KV"] if at.kv != "bf16" else [])])
    if own.prefill is None:
        return f"{own.replicas} × {at.gpu}{sizes(own.serving)} ({formats})"
    first, second = sizes(own.prefill), sizes(own.serving)
    if first == second:
        return f"{own.prefill_replicas}P + {own.replicas}D × {at.gpu}{first} ({formats})"
    return f"{own.prefill_replicas}P{first} + {own.replicas}D{second} × {at.gpu} ({formats})"


def marked(own: Answer, chosen: Candidate) -> str:
    """With a mark behind it where its pass times are extrapolated."""
    return short(chosen) + (MARK if own.extrapolated(chosen) else "")


def legend(rows: Iterable[Sequence[str]]) -> str:
    """What the mark means, where one is in these rows."""
    return MEANING if any(cell.endswith(MARK) for row in rows for cell in row) else ""


def beside_winner(own: Answer) -> str:
    """Of a winner whose pass times are extrapolated: what else to buy, empty for others."""
    if own.best is None or not own.extrapolated(own.best.candidate):
        return ""
    said = f"{MARK} pass times extrapolated"
    if own.measured is None:
        return f"{said}; of those whose are not, none was found that keeps the SLO"
    dearer = own.measured.usd_per_hour / own.best.usd_per_hour - 1
    return (
        f"{said}; the cheapest whose are not: {short(own.measured.candidate)}, "
        f"${significant(own.measured.usd_per_hour)} an hour, "
        f"{f'{percent(dearer)} dearer' if dearer > 0 else 'as dear'}"
    )


def sizes(own: Kind) -> str:
    return "" if own.layout.devices == 1 else f" {own.layout.plan}"


def slo_words(own: Slo) -> str:
    limits = ", ".join(f"{name.upper()} ≤ {duration(limit)}" for name, limit in own.limits)
    return f"{limits} for {percent(own.attainment)} of the requests"


def load_words(own: Answer) -> str:
    load = own.question.workload
    return (
        f"{plural(len(load), 'request')} at {significant(load.rate) if load.rate else '0'}/s, "
        f"{count(float(load.prompt_tokens.mean()))} prompt and "
        f"{count(float(load.output_tokens.mean()))} output tokens on average"
    )


def density(own: Answer) -> str:
    """What the one with most of the load a device could bear at the most."""
    return f"most a GPU: {significant(own.densest[1])} requests/s each at its limit" if own.densest else ""


FRONT = "none is cheaper and faster; each with engine options of its own, which --json tells"
MARK = "*"
MEANING = f"{MARK} pass times extrapolated from other accelerators'"
HEADS = ("", "GPUs", "USD/h", "kept", "TTFT", "TPOT", "E2E")


def cells(own: Answer, best: Best) -> tuple[str, ...]:
    kept = best.trial.kept
    return (
        marked(own, best.candidate),
        count(best.candidate.devices),
        significant(best.usd_per_hour),
        percent(kept.share),
        seconds(kept.ttft_s),
        seconds(kept.tpot_s),
        seconds(kept.e2e_s),
    )


def seconds(value: float) -> str:
    return duration(value) if isfinite(value) else "never"


def choice_rows(own: Answer) -> Iterable[tuple[str, ...]]:
    """The winner, and the other aims: fewest devices, most of the load a device."""
    if own.best is not None:
        yield ("least cost", *cells(own, own.best))
    if own.fewest is not None:
        yield ("fewest GPUs", *cells(own, own.fewest))
    if own.densest is not None:
        yield ("most a GPU", *cells(own, own.densest[0]))


def rival_rows(own: Answer) -> Iterable[tuple[str, str, str]]:
    for each in own.rivals:
        name = f"{each.gpu}, {'prefill and decode apart' if each.split else 'whole'}"
        name += MARK if own.clocks[each.gpu].extrapolated else ""
        if each.best is None:
            yield name, "-", f"none found up to {DEARER:g} times the winner's cost, in {TRIALS} simulations"
        elif own.best is not None and each.best.candidate == own.best.candidate:
            yield name, f"${significant(each.best.usd_per_hour)}/h", f"wins: {short(each.best.candidate)}"
        else:
            dearer = each.best.usd_per_hour / own.best.usd_per_hour - 1 if own.best else 0.0
            said = f"{percent(dearer)} dearer" if dearer > 0 else "as dear, uses up more of its limits"
            yield name, f"${significant(each.best.usd_per_hour)}/h", f"{said}: {short(each.best.candidate)}"


def near_rows(own: Answer, most: int) -> Iterable[tuple[str, str, str]]:
    for each in own.near[:most]:
        yield marked(own, each.candidate), f"${significant(each.usd_per_hour)}/h", why_lost(own, each)


def why_lost(own: Answer, each: Near) -> str:
    kept, slo = each.trial.kept, own.question.slo
    at_most = "at most " if kept.cut else ""
    broken = [
        f"{name.upper()} {seconds(found)} of {duration(limit)}" for name, found, limit in kept.broken(slo)
    ]
    parts = [f"{at_most}{percent(kept.share)} keep it", *broken]
    if kept.grows:
        parts.append("its queue grows without bound")
    if kept.cut and not broken:
        parts.append("too many had missed early on")
    return "; ".join(parts)


def lost_rows(own: Answer) -> Iterable[tuple[str, str, str]]:
    for why, number in own.looked.lost.most_common():
        if number:
            yield why, LOST[why], count(number)


def change_rows(own: Answer) -> Iterable[tuple[str, str, str, str, str]]:
    for each in own.changes:
        kept = each.trial.kept
        yield change_name(each), bears(each), percent(kept.share), seconds(kept.ttft_s), seconds(kept.tpot_s)


def change_name(own: Change) -> str:
    return f"{own.what} {own.factor - 1:+.0%}"


def bears(own: Change) -> str:
    if own.meets:
        return "keeps the SLO"
    if own.needed is None:
        return f"breaks it, with {MORE} replicas more, too"
    return f"breaks it; {short(own.needed)} keep it"


def headline(own: Answer) -> str:
    if own.best is None:
        return "Nothing that was looked at keeps the SLO"
    return f"{marked(own, own.best.candidate)}: ${significant(own.best.usd_per_hour)} an hour"


def counted(own: Answer) -> str:
    looked = own.looked
    return (
        f"{count(looked.considered)} candidates of up to {count(looked.most_devices)} GPUs, "
        f"{count(looked.considered - looked.left)} ruled out by bounds, {count(own.simulated)} simulated"
    )


def guessed(own: Answer) -> Iterable[str]:
    """Accelerators whose pass times come from what was measured elsewhere, the winner's first."""
    names = [gpu for gpu, clock in own.clocks.items() if clock.extrapolated]
    if own.best is not None and own.best.candidate.gpu in names:
        name = own.best.candidate.gpu
        yield (
            f"the winner's pass times are extrapolated: measure some on {name} before buying "
            "(`twophase calibrate`)"
        )
        names.remove(name)
    if names:
        yield f"pass times of {', '.join(names)} are extrapolated"


def notes(own: Answer) -> list[str]:
    found = [*guessed(own), *own.question.workload.notes]
    prices = ", ".join(f"{name} ${significant(usd)}" for name, usd in own.question.prices.items())
    dates = {each.price_date for each in own.question.accelerators.values() if each.price_date}
    found.append(f"prices an hour, on demand, indicative ({', '.join(sorted(dates)) or 'given'}): {prices}")
    if own.best is not None and own.best.candidate.serving.layout.weights:
        found.append(
            f"weights in {own.best.candidate.serving.layout.weights} change answers a little: "
            "--weights own keeps to the checkpoint's"
        )
    if own.best is None:
        found.append("more: --max-gpus, --max-cost, other --gpus or --weights, or wider limits")
    return found
