"""What options of `simulate` must be to make sense, and the workload that they describe."""

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from twophase.cli.options import positive, require_one_form
from twophase.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from twophase.simulate.groups import Group
    from twophase.simulate.workload_arrays import Role
    from twophase.workload.workload import Workload

LARGEST = 100_000_000
LONGEST = 10_000_000  # tokens of a prefix
MOST_DRAFTS = 64
SLOWEST = 1e-9  # requests a second
MOST = {  # what else takes too much memory
    "requests": 10_000_000,  # 1.2 kB each
    "replicas": 1024,  # 4 MB each
    "max_sequences": 65_536,
    "max_tokens_per_pass": 1 << 22,
    "kv_blocks": 20_000_000,
    "block_size": 65_536,
}
REQUESTS = 1000  # where nothing else says how many
COUNTS = (
    *("concurrency", "requests", "turns", "prefixes", "replicas", "max_sequences", "max_tokens_per_pass"),
    *("context_length", "kv_blocks", "block_size"),
)
SECONDS = ("rate", "speedup", "burstiness", "duration", "max_time")
OF_RATE = (
    "rate",
    "arrivals",
    "burstiness",
    "ramp",
    "prompt_tokens",
    "output_tokens",
    "prefix_tokens",
    "turns",
)
OF_LAYOUT = ("gpu", "tp", "pp", "ep", "dp", "replicas", "disaggregate", "prefill_tp")
OF_TIMES = ("rate", "arrivals", "burstiness", "ramp", "speedup", "spread_arrivals", "duration")
TRACE_ALONE = ("speedup", "spread_arrivals")


def require_sound(values: Mapping[str, Any], given: Collection[str]) -> None:
    """InputError where a value, or options together, make no sense; `given` are those that the user gave."""
    require_one_form(values["json"], values["plain"])
    for name in SECONDS:
        if values[name] is not None:
            positive(f"--{name.replace('_', '-')}", values[name])
    for name in COUNTS:
        most = MOST.get(name, LARGEST)
        if values[name] is not None and not 1 <= values[name] <= most:
            raise InputError(
                f"--{name.replace('_', '-')} {values[name]}: it must be a whole number from 1 to {most:,}"
            )
    for name in ("ramp", "think"):
        if not 0 <= values[name] < float("inf"):
            raise InputError(f"--{name} {values[name]:g}: give seconds, 0 or more")
    for name, most in (("prefix_tokens", LONGEST), ("speculate", MOST_DRAFTS)):
        if not 0 <= values[name] <= most:
            raise InputError(
                f"--{name.replace('_', '-')} {values[name]}: give a whole number from 0 to {most:,}"
            )
    if values["rate"] is not None and not SLOWEST <= values["rate"] <= 1 / SLOWEST:
        raise InputError(f"--rate {values['rate']:g}: give requests a second, {SLOWEST:g} to {1 / SLOWEST:g}")
    if not 0 <= values["acceptance"] <= 1:
        raise InputError(f"--acceptance {values['acceptance']:g}: it must lie between 0 and 1")
    if values["concurrency"] is not None and (clash := [name for name in OF_TIMES if name in given]):
        other = clash[0].replace("_", "-")
        raise InputError(
            f"--concurrency N sends when answers end, at no times of its own: leave out --{other}"
        )
    if values["trace"] is None and values["rate"] is None and values["concurrency"] is None:
        raise InputError("say what arrives: give --trace FILE, --rate R or --concurrency N")
    if values["trace"] is not None and (clash := [name for name in OF_RATE if name in given]):
        other = clash[0].replace("_", "-")
        raise InputError(f"--trace and --{other} don't go together: give one of them")
    if values["trace"] is not None and values["lengths"] is not None:
        raise InputError("--trace has lengths of its own: leave out --lengths, or give it with --rate")
    if values["trace"] is None and (alone := [name for name in TRACE_ALONE if name in given]):
        raise InputError(f"--{alone[0].replace('_', '-')} is for replays: give --trace FILE, too")
    if values["lengths"] is not None and {"prompt_tokens", "output_tokens"} & set(given):
        raise InputError(
            "--lengths draws prompts and outputs together: leave out --prompt-tokens and the like"
        )
    if "burstiness" in given and values["arrivals"] != "gamma":
        raise InputError("--burstiness shapes gamma arrivals: give --arrivals gamma, too")
    if "prefixes" in given and not values["prefix_tokens"]:
        raise InputError("--prefixes says how many prefixes there are: give their --prefix-tokens, too")
    if "think" in given and values["turns"] == 1:
        raise InputError("--think lies between turns: give --turns, too")
    if "acceptance" in given and not values["speculate"]:
        raise InputError("--acceptance is of drafts: give --speculate K, too")
    if values["pool"] and (clash := [name for name in OF_LAYOUT if name in given]):
        other = clash[0].replace("_", "-")
        raise InputError(f"each --pool says what it is made of: leave out --{other}")
    if (
        values["disaggregate"] is None
        and (alone := [name for name in ("link", "no_overlap", "prefill_tp") if name in given])
        and not any("role=" in each for each in values["pool"])
    ):
        raise InputError(f"--{alone[0].replace('_', '-')} is for --disaggregate P:D: give it, too")
    if values["disaggregate"] is not None and "replicas" in given:
        raise InputError("--disaggregate P:D says how many replicas there are: leave out --replicas")
    if "kv_blocks" in given and "kv_memory" in given:
        raise InputError("--kv-blocks and --kv-memory say the same: give one of them")


def split_of(text: str) -> tuple[int, int]:
    """P:D, both 1 or more."""
    found = re.fullmatch(r"([0-9]{1,5}):([0-9]{1,5})", text.strip())
    prefill, decode = map(int, found.groups()) if found else (0, 0)
    if not (prefill and decode) or prefill + decode > MOST["replicas"]:
        raise InputError(
            f"--disaggregate {text}: give prefill and decode replicas as P:D, like 2:6, "
            f"{MOST['replicas']:,} together at most"
        )
    return prefill, decode


def group_of(text: str, hardware: "Path | None") -> "Group":
    """GPU[:N][,tp=4][,pp=..][,ep=..][,dp=..][,role=prefill|decode]."""
    from twophase.cost.parallel import Plan
    from twophase.hardware.catalogue import load_accelerator
    from twophase.simulate.groups import Group

    head, *options = text.split(",")
    name, colon, number = head.strip().partition(":")
    numbers = {"count": number if colon else "1"}
    role: Role = "both"
    for option in options:
        key, _, value = (each.strip() for each in option.partition("="))
        if key == "role" and value in ("prefill", "decode") and role == "both":
            role = "prefill" if value == "prefill" else "decode"
        elif key in ("tp", "pp", "ep", "dp") and key not in numbers:
            numbers[key] = value
        else:
            raise InputError(
                f"--pool {text}: {option.strip()!r} is none of tp=N, pp=N, ep=N, dp=N, role=prefill|decode"
            )
    for key, value in numbers.items():
        if not re.fullmatch("0*[1-9][0-9]{0,2}", value):
            what = "GPU:N" if key == "count" else f"{key}=N"
            raise InputError(f"--pool {text}: {what} must have a whole number from 1 to 999")
    count, *layout = map(int, numbers.values())
    plan = Plan(**dict(zip(list(numbers)[1:], layout, strict=True)))
    return Group(load_accelerator(name, hardware), count, plan, role)


def number_of(seed: str) -> int:
    """Of a seed in letters."""
    from hashlib import blake2b

    if seed.isdecimal() and len(seed) < 10:
        return int(seed)
    return int.from_bytes(blake2b(seed.encode(), digest_size=4).digest())


def workload_of(values: Mapping[str, Any]) -> "Workload":
    """What arrives, by these options; of clients (--concurrency), what they ask for, whenever it comes."""
    from twophase.workload.arrivals import Arrivals
    from twophase.workload.lengths import lengths_of
    from twophase.workload.servegen import is_servegen, read_servegen
    from twophase.workload.synthetic import Pairs, Recipe, synthetic
    from twophase.workload.traces import read_lengths, read_trace, spread_out

    trace, seed, most = values["trace"], str(values["seed"]), values["requests"]
    if trace is not None:
        if is_servegen(trace):
            return until(
                read_servegen(trace, seed, most, values["duration"]).faster(values["speedup"]), values
            )
        made = read_trace(trace, most, values["speedup"], values["skip_bad"])
        return until(spread_out(made, seed) if values["spread_arrivals"] else made, values)
    pairs = Pairs(*read_lengths(values["lengths"], values["skip_bad"])) if values["lengths"] else None
    recipe = Recipe(
        arrivals=Arrivals(values["rate"] or 1.0, values["arrivals"], values["burstiness"], values["ramp"]),
        prompt=lengths_of("--prompt-tokens", values["prompt_tokens"]),
        output=lengths_of("--output-tokens", values["output_tokens"]),
        pairs=pairs,
        prefix_tokens=values["prefix_tokens"],
        prefixes=values["prefixes"],
        turns=values["turns"],
        think_s=values["think"],
    )
    if values["duration"] is not None and most is None:
        most = max(1, round(values["rate"] * values["duration"] * 1.5) + 100) * recipe.turns
        if most > MOST["requests"]:
            raise InputError(
                f"--duration {values['duration']:g} at that rate is over {MOST['requests']:,} requests"
            )
    return until(synthetic(recipe, most or REQUESTS, seed), values)


def until(workload: "Workload", values: Mapping[str, Any]) -> "Workload":
    """Without those that would come after --duration."""
    import numpy as np

    if values["duration"] is None:
        return workload
    late = workload.arrival_s > values["duration"]
    if workload.follows is not None:
        late &= workload.follows < 0
    if not late.any():
        return workload
    return workload.first(max(1, int(np.argmax(late))))
