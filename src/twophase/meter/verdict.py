"""What binds each phase of a server, how far it is from the floor, and what would pay most."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from twophase.meter.beside import Beside, beside
from twophase.meter.curves import Curves
from twophase.meter.floors import Best, Floors
from twophase.meter.itl_law import ItlLaw
from twophase.meter.least_squares import Estimate
from twophase.meter.ttft_curve import TtftFit, ttft_at
from twophase.units import count, duration, percent, significant, times

Phase = Literal["prefill", "decode"]
IDLE = 0.25  # both roofs used less than this: neither explains the time
ABSURD = 1000.0  # a change that leaves nothing of what was measured says that too little was
WORTH = 1.03  # a gain below it is not worth a line
DRAFTED = 2.0  # tokens a pass that speculation is taken to keep
HALVED = {16.0: "int8-weights", 8.0: "int4-weights"}  # by the bits that weights have now


@dataclass(frozen=True, slots=True)
class Part:
    """A term of a phase's law at the reference request, in seconds."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PhaseVerdict:
    phase: Phase
    seconds: float  # of the reference request
    parts: tuple[Part, ...]  # largest first
    binds: str
    floor_s: float | None
    mfu: float | None
    mbu: float | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Lever:
    """One change, taken alone: the request's time before ÷ after, or requests served where it says so."""

    change: str
    phase: Phase
    gain: float
    why: str
    serves_more: bool = False  # the gain is of throughput: none gets faster
    depends: bool = False  # on what is asked: prompts that repeat, text that can be guessed
    lever: str = (
        ""  # its key in the list that `advise` has, which knows its price and its flags; "": none there
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    headline: str
    prompt_tokens: int
    output_tokens: int
    phases: tuple[PhaseVerdict, ...]  # the one that takes longer first
    levers: tuple[Lever, ...]  # sure ones first, best first
    beside: Beside | None

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.phases)


def judge(
    curves: Curves, floors: Floors | None = None, prompt_tokens: int = 2000, output_tokens: int = 500
) -> Verdict:
    """Of a reference request alone. Phases whose law is missing are left out, and the headline says so."""
    marks = beside(curves, floors) if floors else None
    found = []
    if curves.ttft:
        found.append(_prefill(curves.ttft, floors, prompt_tokens))
    if curves.itl:
        found.append(_decode(curves.itl, floors, prompt_tokens, output_tokens))
    found.sort(key=lambda each: -each.seconds)
    levers = sorted(_levers(curves, found, marks, floors, prompt_tokens, output_tokens), key=_rank)
    return Verdict(
        headline=_headline(curves, found, levers, prompt_tokens, output_tokens),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        phases=tuple(found),
        levers=tuple(levers),
        beside=marks,
    )


def _rank(each: Lever) -> tuple[bool, bool, float]:
    return each.serves_more, each.depends, -each.gain


def _prefill(fit: TtftFit, floors: Floors | None, tokens: int) -> PhaseVerdict:
    seconds = ttft_at(fit, tokens)
    a, b, c = fit.coefficients
    if fit.floor_s and seconds <= fit.floor_s.value * (1 + 1e-9):
        parts = [Part("the floor that every short prompt pays", seconds)]
    else:
        parts = [
            Part("what every request pays", a),
            Part("work in proportion to the prompt", b * tokens),
            Part("attention, which grows with its square", c * tokens**2),
        ]
    return _phase("prefill", seconds, parts, floors.prefill(tokens) if floors else None, 1.0, _turns(fit))


def _decode(law: ItlLaw, floors: Floors | None, prompt_tokens: int, output_tokens: int) -> PhaseVerdict:
    steps, context = output_tokens - 1, prompt_tokens + output_tokens / 2
    a, b, c = law.coefficients
    parts = [
        Part("what every pass pays, the weights' read above all", a * steps),
        Part("work for the sequence", b * steps),
        Part("reading its keys and values", c * context * steps),
    ]
    best = floors.decode(1, int(context)) if floors else None
    seconds = sum(each.seconds for each in parts)
    return _phase("decode", seconds, parts, best, max(steps, 1), "")


def _phase(
    phase: Phase, seconds: float, parts: list[Part], best: Best | None, passes: float, more: str
) -> PhaseVerdict:
    ordered = sorted(parts, key=lambda each: -each.seconds)
    share = ordered[0].seconds / seconds if seconds else 0.0
    binds = ordered[0].name
    floor_s = mfu = mbu = None
    sentence = f"{phase.capitalize()} takes {duration(seconds)}; {percent(share)} of it is {binds}"
    if best is not None and seconds:
        floor_s, mfu, mbu = (each * passes for each in (best.floor_s, best.compute_s, best.memory_s))
        mfu, mbu = mfu / seconds, mbu / seconds
        if max(mfu, mbu) < IDLE:
            binds = "overhead: neither arithmetic nor memory explains it"
        elif best.bound == "communication":
            binds = "communication between devices"
        else:
            binds = "arithmetic" if best.bound == "compute" else "memory bandwidth"
        sentence += (
            f". Bound by {binds}: {percent(mfu)} MFU, {percent(mbu)} MBU, "
            f"{times(seconds / floor_s)} its floor of {duration(floor_s)}"
        )
    return PhaseVerdict(phase, seconds, tuple(ordered), binds, floor_s, mfu, mbu, f"{sentence}.{more}")


def _turns(fit: TtftFit) -> str:
    """Where the curve changes its slope, each with its interval."""
    said = []
    if fit.leaves_floor_tokens and fit.floor_s:
        said.append(
            f" TTFT stays at {duration(fit.floor_s.value)} until {_tokens(fit.leaves_floor_tokens)} tokens."
        )
    if fit.bend_prompt_tokens and fit.bend_prompt_tokens.value <= fit.to_tokens:
        said.append(
            f" It bends upward from {_tokens(fit.bend_prompt_tokens)} tokens on: attention adds a tenth."
        )
    else:
        said.append(f" It does not bend upward up to {count(fit.to_tokens)} tokens.")
    return "".join(said)


def _tokens(own: Estimate) -> str:
    high = count(own.high) if own.high is not None else "no upper limit"
    return f"{count(own.value)} ({count(own.low)} to {high})"


def _headline(
    curves: Curves, found: list[PhaseVerdict], levers: list[Lever], prompt_tokens: int, output_tokens: int
) -> str:
    if not found:
        return f"No verdict: {'; '.join(curves.failed)}"
    first = found[0]
    whole = sum(each.seconds for each in found)
    size = f"({count(prompt_tokens)} in, {count(output_tokens)} out)"
    if len(found) == 1:
        line = f"{first.phase.capitalize()} alone was measured: {duration(first.seconds)} {size}"
    else:
        line = (
            f"{first.phase.capitalize()} takes {percent(first.seconds / whole)} of {duration(whole)} {size}"
        )
    line += f": bound by {first.binds}"
    if first.floor_s:
        line += f", {times(first.seconds / first.floor_s)} its floor"
    sure = next((each for each in levers if not each.serves_more), None)
    if sure is not None:
        line += f"; what would pay most: {sure.change} ({times(sure.gain)})"
    return line + "."


def _levers(
    curves: Curves,
    found: list[PhaseVerdict],
    marks: Beside | None,
    floors: Floors | None,
    prompt_tokens: int,
    output_tokens: int,
) -> Iterable[Lever]:
    """What each change takes off the measured time, where nothing else changes."""
    whole = sum(each.seconds for each in found)

    def gain(saved_s: float) -> float:
        return whole / max(whole - saved_s, 1e-9 * whole) if whole else 1.0

    made: list[Lever] = []
    if curves.ttft:
        fit = curves.ttft
        a = fit.floor_s.value if fit.floor_s else fit.overhead_s.value
        work = max(ttft_at(fit, prompt_tokens) - a, 0.0)
        made.append(
            Lever(
                *("a prefix cache that holds nine tenths of the prompt", "prefill", gain(0.9 * work)),
                f"the prompt's own work is {duration(work)} of {duration(whole)}",
                depends=True,
                lever="prefix-cache",
            )
        )
        made.append(
            Lever(
                *("no fixed cost before the first token", "prefill", gain(a)),
                f"each request pays {duration(a)} whatever its length: queue, network, tokenizer, launches",
            )
        )
    if curves.itl:
        made += _decode_levers(curves.itl, marks, floors, gain, prompt_tokens, output_tokens)
    return [each for each in made if WORTH <= each.gain <= ABSURD]


def _decode_levers(
    law: ItlLaw,
    marks: Beside | None,
    floors: Floors | None,
    gain: Callable[[float], float],
    prompt_tokens: int,
    output_tokens: int,
) -> list[Lever]:
    steps, context = output_tokens - 1, prompt_tokens + output_tokens / 2
    a, b, c = law.coefficients
    mbu = marks.weights_mbu if marks else None
    read = min(mbu or 1.0, 1.0)
    known = f"of each pass, {duration(a * read)} is the weights' read at full bandwidth"
    guessed = f"each pass pays {duration(a)}, if the weights' read is what it pays for"
    made = [
        Lever(
            *("weights in half the bits", "decode", gain(steps * a * read / 2)),
            known if mbu else guessed,
            lever=HALVED.get(floors.own.storage.linear.bits, "") if floors else "",
        ),
        Lever(
            *("keys and values in half the bits", "decode", gain(steps * c * context / 2)),
            f"they cost {duration(c * context)} of each token at {count(context)} tokens of context",
            lever="kv-fp8" if floors is None or floors.own.kv_bytes >= 2 else "",
        ),
        Lever(
            *(
                "speculation that keeps two tokens a pass",
                "decode",
                gain(steps * (a + b) * (1 - 1 / DRAFTED)),
            ),
            "half the passes, each with the weights' read once; what drafts cost is not in it",
            depends=True,
            lever="speculation",
        ),
    ]
    if read < 1:
        made.append(
            Lever(
                *("a decode pass without its overhead", "decode", gain(steps * a * (1 - read))),
                f"{duration(a * (1 - read))} of each pass is not the weights' read: launches, sampling, the "
                "scheduler",
                lever="decode-kernels",
            )
        )
    one, many = a + b + c * context, a + 16 * (b + c * context)
    made.append(
        Lever(
            *("a batch of 16 rather than one", "decode", 16 * one / many),
            f"a pass of 16 takes {duration(many)}, one of a single sequence {duration(one)}",
            serves_more=True,
            lever="larger-batch",
        )
    )
    return made


def law_line(law: ItlLaw) -> str:
    return (
        f"ITL = {_time(law.pass_s)} + {_time(law.sequence_s)} · batch + "
        f"{_time(law.context_s_per_token)} · batch · context"
    )


def fit_line(fit: TtftFit) -> str:
    curve = (
        f"{_time(fit.overhead_s)} + {_time(fit.linear_s_per_token)} · n + "
        f"{_time(fit.quadratic_s_per_token2)} · n²"
    )
    if fit.floor_s:
        return f"TTFT = the larger of {_time(fit.floor_s)} and {curve}"
    return f"TTFT = {curve}"


def _time(own: Estimate) -> str:
    """31.0 ms (30.1 to 32.0): value and interval in one unit."""
    largest = max(own.value, own.high or 0.0)
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps")):
        if largest >= size or size == 1e-12:
            values = [significant(each / size) for each in (own.value, own.low, own.high or 0.0)]
            return f"{values[0]} {unit} ({values[1]} to {values[2]})"
    raise AssertionError
