"""What options of `plan` must be to make sense: lists of names and numbers, prices."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twophase.cli.options import positive, require_one_form
from twophase.cli.simulate_options import MOST
from twophase.errors import InputError, nearest
from twophase.hardware.cores import cores

if TYPE_CHECKING:
    from twophase.hardware.accelerator import Accelerator

LARGEST = 1_000_000
PROCESSES = 4  # for each core: each takes a few hundred megabytes


def require_plannable(values: Mapping[str, Any]) -> None:
    require_one_form(values["json"], values["plain"])
    if values["resume"] and values["out"] is None:
        raise InputError("--resume goes on with a run folder: give it with -o DIR")
    most = PROCESSES * cores()
    if values["processes"] is not None and not 1 <= values["processes"] <= most:
        raise InputError(f"--processes {values['processes']}: this machine's cores bear 1 to {most}")
    for name in ("max_gpus", "context_length"):
        if values[name] is not None and not 1 <= values[name] <= 100 * LARGEST:
            raise InputError(f"--{name.replace('_', '-')} {values[name]}: a whole number, 1 or more")
    if values["ray"] is not None and values["processes"] is not None:
        raise InputError("--processes is for this machine, --ray for a cluster: give one of them")
    if values["max_cost"] is not None:
        positive("--max-cost", values["max_cost"])


def words_of(option: str, text: str, known: Collection[str] | None = None) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each.strip().lower() for each in text.split(",") if each.strip()))
    if not found:
        raise InputError(f"{option} {text!r}: give names with commas between them")
    for each in found if known is not None else ():
        if known is not None and each not in known:
            raise InputError(f"{option} {each}: it must be one of {', '.join(known)}{nearest(each, known)}")
    return found


def numbers_of(option: str, text: str) -> tuple[int, ...]:
    found = words_of(option, text)
    most = MOST.get(option.removeprefix("--").replace("-", "_"), LARGEST)
    for each in found:
        if not each.isdecimal() or not 1 <= int(each) <= most:
            raise InputError(
                f"{option} {text}: give whole numbers from 1 to {most:,} with commas between them, like 1,2,4"
            )
    return tuple(sorted(map(int, found)))


def accelerators_of(text: str, hardware: Path | None) -> "dict[str, Accelerator]":
    from twophase.hardware.catalogue import load_accelerator

    found = [load_accelerator(each, hardware) for each in words_of("--gpus", text)]
    return {each.name: each for each in found}


def prices_of(
    given: Sequence[str], devices: "Mapping[str, Accelerator]", hardware: Path | None
) -> dict[str, float]:
    """USD per hour of one device. InputError where one has none."""
    from twophase.hardware.catalogue import load_accelerator

    own: dict[str, float] = {}
    for each in given:
        name, _, number = each.partition("=")
        try:
            usd = float(number)
        except ValueError:
            usd = 0.0
        if not name or not 0 < usd < LARGEST:
            raise InputError(f"--price {each}: give NAME=USD, of one device an hour, like h100-sxm=2.5")
        found = load_accelerator(name, hardware).name
        if found not in devices:
            raise InputError(f"--price {each}: {found} is not among --gpus {','.join(devices)}")
        own[found] = usd
    for name, device in devices.items():
        if name not in own and device.price_per_hour is None:
            raise InputError(f"{device.title} has no public price: give --price {name}=USD, or leave it out")
    return {name: own.get(name, device.price_per_hour or 0.0) for name, device in devices.items()}
