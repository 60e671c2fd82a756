"""What options of `bench` must be to make sense, alone and together."""

import math
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from twophase.cli.options import positive, require_one_form
from twophase.errors import InputError

LARGEST = 100_000_000
SECONDS = ("rate", "duration", "speedup", "timeout", "burstiness")  # above zero
NAMES = ("model", "seed", "gpu")
COUNTS = ("concurrency", "requests", "turns", "prefixes", "workers", "gpus")
EXCLUDED = {  # options that say twice, or against each other, what is sent
    "trace": (
        *("sweep", "dataset", "turns", "prompt_tokens", "output_tokens", "prefix_tokens", "arrivals"),
        *("burstiness", "ramp"),
    ),
    "dataset": ("prompt_tokens", "prefix_tokens", "prefixes"),
}


def require_sound(values: Mapping[str, Any], given: Collection[str]) -> None:
    """InputError where a value, or options together, make no sense; `given` are those that the user gave."""
    require_one_form(values["json"], values["plain"])
    if sum(values[name] is not None for name in ("concurrency", "rate", "trace")) > 1:
        raise InputError("give one of --concurrency, --rate and --trace")
    for name in SECONDS:
        if values[name] is not None:
            positive(f"--{name}", values[name])
    for name in COUNTS:
        if values[name] is not None and not 1 <= values[name] <= LARGEST:
            raise InputError(f"--{name} {values[name]}: it must be a whole number, 1 or more")
    for name in ("ramp", "grace"):
        if values[name] is not None and not 0 <= values[name] < math.inf:
            raise InputError(f"--{name} {values[name]:g}: give seconds, 0 or more")
    for name in ("warmup", "prefix_tokens"):
        if not 0 <= (values[name] or 0) <= LARGEST:
            raise InputError(f"--{name.replace('_', '-')} {values[name]}: give a whole number, 0 or more")
    for name in NAMES:
        if values[name] is not None and not (values[name] and values[name].isprintable()):
            raise InputError(f"--{name} {values[name]!r}: give a name of letters that can be printed")
    for one, others in EXCLUDED.items():
        if one in given and (clash := [name for name in others if name in given]):
            other = clash[0].replace("_", "-")
            raise InputError(f"--{one} and --{other} don't go together: give one of them")
    if values["rate"] is None and {"arrivals", "burstiness"} & set(given):
        raise InputError("--arrivals and --burstiness say how requests of a --rate come: give --rate, too")
    if "burstiness" in given and values["arrivals"] != "gamma":
        raise InputError("--burstiness shapes gamma arrivals: give --arrivals gamma, too")
    if "prefixes" in given and not values["prefix_tokens"]:
        raise InputError("--prefixes says how many prefixes there are: give their --prefix-tokens, too")
    if values["trace"] is None and (replaying := [name for name in ("speedup", "skip_bad") if name in given]):
        option = replaying[0].replace("_", "-")
        raise InputError(f"--{option} is for replays: give --trace FILE, too")


def first_concurrency(concurrency: int | None, sweep: bool) -> int:
    return (1 if sweep else 8) if concurrency is None else concurrency


def headers_of(given: list[str], api_key: str | None) -> tuple[tuple[str, str], ...]:
    found = [("Authorization", f"Bearer {api_key}")] if api_key else []
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not name.strip():
            raise InputError(f"--header {name}: give it as 'Name: value'")
        found.append((name.strip(), value.strip()))
    return tuple(found)


def fields_of(body: str | None) -> tuple[tuple[str, str], ...]:
    """Each with its value as JSON."""
    from json import dumps, loads

    if body is None:
        return ()
    try:
        fields = loads(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"--body {body}: give a JSON object, like '{{\"top_p\": 0.9}}'")
    return tuple((name, dumps(value)) for name, value in fields.items())


def counter_of(path: Path | None) -> Callable[[str], int] | None:
    """A local tokenizer's count of a text."""
    if path is None:
        return None
    from twophase.cli.needs import needs

    with needs("engine"):
        from twophase.engine.tokenizer import load_tokenizer
    if not os.path.exists(path):
        raise InputError(f"--tokenizer {path} does not exist: give a Hugging Face directory or a .gguf file")
    tokenizer = load_tokenizer(path)
    return lambda text: len(tokenizer.encode(text, add_bos=False))
