"""The constants that bench/fit_serving.py fits: their names, what is expected of them, and their file.

Each is drawn to where it would be expected; an engine's own ones to the engines' mean, and their mean to
where it would be expected. Rows of one configuration err together, so that thousands of them are far fewer
independent measurements: what is expected counts four times as much as if they were not.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import twophase.calibration
from twophase.calibration.served_times import MOST, EngineTimes, Shares, constants

Floats = NDArray[np.float64]
TOML = Path(twophase.calibration.__file__).with_name("served.toml")
ENGINES = ("vllm", "sglang", "trtllm")
OF_ENGINE = (*EngineTimes._fields, "front_s", "request_s")
OF_QUEUEING = (
    *("burst", "together", "merged", "waited", "looked", "prompts"),
    *("apart_waited", "apart_request_s"),
)
READING = ("accepted", "perhaps_accepted")  # of the rows, not of engines
SURE = 2.0  # so much narrower than said below are the widths
ALIKE = 0.5  # of a width: how far engines are from their mean
# (expected, how many times as much or as little is as likely as not, in logarithms)
EXPECTED: dict[str, tuple[float, float]] = {
    **{"read16": (0.75, 0.2), "read8": (0.6, 0.3), "read4": (0.5, 0.4), "flops16": (0.7, 0.2)},
    **{"flops8": (0.5, 0.3), "flops4": (0.4, 0.4), "experts_read": (0.6, 0.4), "experts_read4": (1.0, 0.3)},
    **{"experts_flops": (0.5, 0.5), "experts_flops4": (1.0, 0.3), "tile": (64.0, 0.7)},
    **{"skew": (0.9, 0.1), "imbalance": (1.2, 0.3), "cache_read": (0.6, 0.4), "decode_pairs": (0.3, 0.5)},
    **{"prompt_pairs": (0.45, 0.4), "recurrence": (0.01, 0.7), "reduced": (0.5, 0.4)},
    **{"reduction_s": (6e-6, 0.5), "exchanged": (0.4, 0.6), "exchange_s": (20e-6, 0.7)},
    **{"moe_layer_s": (20e-6, 0.7), "latent_layer_s": (15e-6, 0.7), "recurrent_layer_s": (15e-6, 0.7)},
    **{"pass_s": (0.5e-3, 0.8), "sequence_s": (8e-6, 0.8), "layer_s": (40e-6, 0.5), "eager_s": (100e-6, 0.7)},
    **{"front_s": (30e-3, 0.8), "request_s": (0.5e-3, 1.0), "apart_request_s": (0.2e-3, 1.0)},
    # of ten requests of a client, the first begins in a burst, half of which goes before: 1 / 20
    **{"burst": (0.05, 0.2), "together": (2.0, 0.5), "merged": (0.5, 0.3), "waited": (3.0, 0.6)},
    **{"looked": (0.5, 0.3), "prompts": (1.1, 0.3), "apart_waited": (10.0, 0.6)},
    **{"accepted": (1.6, 0.3), "perhaps_accepted": (1.2, 0.3)},
}
BOUNDED = {name for name in Shares._fields if name.startswith(("read", "flops", "cache", "decode", "prompt"))}
BOUNDED |= {"experts_read", "reduced", "exchanged"}
NAMES = (
    *Shares._fields,
    *(f"{engine}.{name}" for name in OF_ENGINE for engine in ENGINES),
    *OF_QUEUEING,
    *READING,
)
CENTRE = np.log([EXPECTED[name.split(".")[-1]][0] for name in NAMES])
WIDTH = np.array([EXPECTED[name.split(".")[-1]][1] for name in NAMES]) / SURE
FIRST, LAST = len(Shares._fields), len(Shares._fields) + len(OF_ENGINE) * len(ENGINES)


def unexpected(at: Floats) -> Floats:
    """How far constants are from where they are expected, in widths: linear in them."""
    off = (at - CENTRE) / WIDTH
    engines = off[FIRST:LAST].reshape(-1, len(ENGINES))
    mean = engines.mean(1)
    off[FIRST:LAST] = ((engines - mean[:, None]) / ALIKE).ravel()
    return np.concatenate([off, mean])


def values_of(at: Floats) -> dict[str, float]:
    found = dict(zip(NAMES, np.exp(at).tolist(), strict=True))
    for name in BOUNDED:
        found[name] = (found[name] ** -6 + MOST**-6) ** (-1 / 6)
    return found


def written(at: Floats, kept: str) -> str:
    """served.toml with these constants; its comments and its intervals stay."""
    values, lines, section = values_of(at), [], ""
    for line in kept.splitlines():
        name = line.split("=")[0].strip()
        if line.startswith("["):
            section = line.strip("[]").removeprefix("engines.")
        key = f"{section}.{name}" if section in ENGINES else name
        lines.append(f"{name} = {values[key]:.3g}" if key in values and "=" in line else line)
    return "\n".join(lines) + "\n"


def start_of() -> Floats:
    own = constants()
    values = {**own["shares"], **own["queueing"], **own["reading"]}
    values |= {f"{engine}.{name}": own["engines"][engine][name] for engine in ENGINES for name in OF_ENGINE}
    return np.log([values[name] for name in NAMES])
