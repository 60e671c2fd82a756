"""What options of `advise` must be to make sense, and the load that they describe."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twophase.cli.options import positive, require_one_form
from twophase.errors import InputError, damaged, require_regular
from twophase.units import duration, plural, times

if TYPE_CHECKING:
    from twophase.advise.advising import Advising
    from twophase.advise.load import Load
    from twophase.advise.setup import Setup

LARGEST = 100_000_000
FASTEST, LONGEST = 1e6, 10_000_000  # requests a second, and tokens of a mean length
LARGEST_FILE = 16 << 20
COUNTS = (
    *("concurrency", "requests", "max_sequences", "max_tokens_per_pass", "context_length", "kv_blocks"),
    "replicas",
)
RECORDED = ("trace", "run", "counters")
BY_HAND = ("prompt_tokens", "output_tokens", "rate", "concurrency")
WINDOW = "`twophase counters --json` writes one"
PREDICTED = ("ttft", "tpot", "e2e")
FAR = 1.5  # times what is predicted: then something else is wrong


def require_sound(values: Mapping[str, Any], given: Collection[str]) -> None:
    """InputError where a value, or options together, make no sense; `given` are those that the user gave."""
    require_one_form(values["json"], values["plain"])
    for name in COUNTS:
        if values[name] is not None and not 1 <= values[name] <= LARGEST:
            raise InputError(
                f"--{name.replace('_', '-')} {values[name]}: it must be a whole number, 1 or more"
            )
    if values["rate"] is not None:
        positive("--rate", values["rate"])
        if values["rate"] > FASTEST:
            raise InputError(f"--rate {values['rate']:g}: give requests a second, {FASTEST:g} at most")
    if not 0 <= values["acceptance"] <= 1:
        raise InputError(f"--acceptance {values['acceptance']:g}: it must lie between 0 and 1")
    if values["shared"] is not None and not 0 <= values["shared"] < 1:
        raise InputError(f"--shared {values['shared']:g}: a share of each prompt, from 0 to below 1")
    if not 0 <= values["speculate"] <= 64:
        raise InputError(f"--speculate {values['speculate']}: give a whole number from 0 to 64")
    sources = [name for name in RECORDED if values[name] is not None]
    if len(sources) > 1:
        raise InputError(f"--{sources[0]} and --{sources[1]} both say what is asked: give one of them")
    if sources and (clash := [name for name in BY_HAND if name in given]):
        other = clash[0].replace("_", "-")
        raise InputError(f"--{sources[0]} and --{other} don't go together: give one of them")
    if values["rate"] is not None and values["concurrency"] is not None:
        raise InputError("give one of --rate and --concurrency")
    if not sources and (values["prompt_tokens"] is None or values["output_tokens"] is None):
        raise InputError(
            "say what is asked: --prompt-tokens N --output-tokens N (with --rate R or --concurrency N), "
            "--trace FILE, --run DIR or --counters FILE"
        )
    if "shared" in given and values["trace"] is not None:
        raise InputError("--trace says itself what prompts share, or nothing does: leave out --shared")


def load_of(values: Mapping[str, Any]) -> tuple["Load", list[str]]:
    """What is asked, and what a reader must know about it."""
    from twophase.advise.load import Load
    from twophase.workload.lengths import Lengths, lengths_of

    shared = values["shared"] or 0.0
    for name in ("trace", "run"):
        if values[name] is not None:
            from twophase.workload.traces import read_trace

            clients = clients_of(values["run"]) if name == "run" else None
            made, nothing = read_trace(values[name], values["requests"]), Lengths("fixed", 1)
            return Load(nothing, nothing, recorded=made, clients=clients, shared=shared), []
    if values["counters"] is not None:
        return window_load(values["counters"], values["shared"])
    prompt = lengths_of("--prompt-tokens", values["prompt_tokens"])
    output = lengths_of("--output-tokens", values["output_tokens"])
    made_load = Load(prompt, output, rate=values["rate"], clients=values["concurrency"], shared=shared)
    return made_load, []


def clients_of(folder: Path) -> int | None:
    """Of a run in a closed loop; None where its requests had times of their own."""
    from twophase.cli.needs import needs

    with needs("meter"):
        from twophase.meter.run_folder import read_document
    document = read_document(folder)
    clients = document["arguments"].get("concurrency")
    return clients if not document["open_loop"] and isinstance(clients, int) and clients > 0 else None


def window_load(path: Path, shared: float | None) -> tuple["Load", list[str]]:
    """From an engine's counters over a window: the rate, mean lengths, and the share found in its cache."""
    from twophase.advise.load import Load
    from twophase.workload.lengths import Lengths

    require_regular(path)
    with damaged(path):
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(
                f"{path} has more than {LARGEST_FILE >> 20} MiB: no window of counters; {WINDOW}"
            )
        entry = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entry, dict) or "window_s" not in entry:
        raise InputError(f"{path} is no window of counters: {WINDOW}")
    if isinstance(entry.get("models"), list):
        raise InputError(f"{path} has {plural(len(entry['models']), 'model')}: give one's own window")
    found = {
        name: amount(path, entry, name)
        for name in ("window_s", "requests", "prompt_tokens", "generation_tokens")
    }
    share = entry.get("cached_share")
    share = float(share) if isinstance(share, int | float) and 0 <= share < 1 else 0.0
    requests = found["requests"]
    rate = requests / found["window_s"]
    longest = max(found["prompt_tokens"], found["generation_tokens"]) / requests
    if rate > FASTEST or longest > LONGEST:
        raise InputError(
            f"{path} tells of {rate:.3g} requests a second of {longest:.3g} tokens: over {FASTEST:g}, or "
            f"than {LONGEST:,}, is no load"
        )
    prompt, output = (
        Lengths("fixed", max(1.0, found[name] / requests)) for name in ("prompt_tokens", "generation_tokens")
    )
    note = "Counters tell mean lengths only: all requests are taken as long as the mean"
    return Load(prompt, output, rate=rate, shared=share if shared is None else shared), [note]


def amount(path: Path, entry: Mapping[str, Any], name: str) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
        said = "not told" if value is None else f"{value!s:.40}"
        raise InputError(
            f"{path}: {name} is {said}: give lengths and rate by hand, "
            "--prompt-tokens, --output-tokens and --rate"
        )
    return float(value)


class Seen(NamedTuple):
    """Seconds by metric: what the user measured, what a run's requests took, and where that was simulated."""

    by_hand: Mapping[str, float]
    of_run: Mapping[str, float]
    simulated: str  # its devices; empty: it was measured


def seen_of(values: Mapping[str, Any]) -> Seen:
    """What is to be held against the prediction; InputError where it can't be."""
    by_hand: dict[str, float] = {}
    if values["measured"] is not None:
        from twophase.meter.goodput import slo_of

        text = values["measured"]
        by_hand = {each.metric: each.seconds for each in slo_of(text, "--measured")}
        if unknown := [metric for metric in by_hand if metric not in PREDICTED]:
            raise InputError(f"--measured {text}: give {', '.join(PREDICTED)}, not {unknown[0]}")
    of_run, simulated = from_run(values["run"]) if values["run"] is not None else ({}, "")
    return Seen(by_hand, of_run, simulated)


def seen_notes(seen: Seen, own: "Advising") -> list[str]:
    """What was measured, or simulated before, beside what is predicted."""
    notes, of_run, here = [], seen.of_run, devices_of(own.setup)
    if seen.simulated and seen.simulated != here:
        of_run = {}
        notes.append(f"The run was simulated on {seen.simulated}, this is {here}: its times are not compared")
    predicted = dict(zip(PREDICTED, (own.before.ttft_s, own.before.itl_s, own.before.e2e_s), strict=True))
    for metric, seconds in {**of_run, **seen.by_hand}.items():
        if metric != "tpot" and own.before.grows:
            notes.append(
                f"{metric.upper()} of {duration(seconds)} is not compared: here it grows with the queue"
            )
            continue
        again = bool(seen.simulated) and metric not in seen.by_hand
        notes.append(beside_predicted(metric, seconds, predicted[metric], again))
    return notes


def beside_predicted(metric: str, seconds: float, predicted_s: float, simulated: bool) -> str:
    ratio = seconds / predicted_s
    said = (
        f"{'Simulated' if simulated else 'Measured'} {metric.upper()} {duration(seconds)} is {times(ratio)} "
        f"what is predicted, {duration(predicted_s)}"
    )
    if simulated:
        return said if 1 / FAR <= ratio <= FAR else f"{said}: the run's options, or its load, were others"
    if ratio > FAR:
        return f"{said}: before any lever, look for what slows it (a fallback kernel, other load, throttling)"
    if ratio < 1 / FAR:
        return f"{said}: the deployment, or what is asked of it, is not the one that runs"
    return said


def devices_of(own: "Setup") -> str:
    """As a simulated run says them."""
    from twophase.report.simulation import listed, named

    return listed([(named(own.accelerator, own.plan), own.replicas)])


def from_run(folder: Path) -> tuple[dict[str, float], str]:
    """(mean TTFT and TPOT of a run's finished requests; the devices that it was simulated on, if it was)."""
    from twophase.cli.needs import needs

    with needs("meter"):
        from twophase.meter.latency import ttft_s
        from twophase.meter.run_folder import load
    from twophase.report.simulation import where_simulated

    record = load(folder)
    finished = [each for each in record.replies if each.outcome == "finished"]
    columns = {
        "ttft": [ttft_s(each, "due" if record.open_loop else "sent") for each in finished],
        "tpot": [each.tpot_s for each in finished],
    }
    known = {name: [each for each in column if each is not None] for name, column in columns.items()}
    means = {name: sum(column) / len(column) for name, column in known.items() if column}
    return means, where_simulated(record)
