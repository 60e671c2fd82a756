"""Fit the constants of calibration/served.toml to measured serving points, and say how they generalise.

    python bench/fit_serving.py --points serving_points.csv [--write] [--held model|system]

Robust least squares (Levenberg-Marquardt) of relative errors over the constants' logarithms, each drawn
weakly to where it would be expected. --held: each model, or each system, is predicted by a fit to all
others.
"""

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from levenberg_marquardt import least_squares
from numpy.typing import NDArray
from serving_errors import impossible, table
from serving_rows import Row, read_rows

import twophase.calibration
from twophase.calibration.served_device import Device, device_of, stacked
from twophase.calibration.served_times import (
    MOST,
    EngineTimes,
    Shares,
    constants,
    logits_s,
    mixed_s,
    mixers_of,
    rows_s,
)
from twophase.cost.deployment import Deployment
from twophase.lint.names import Models
from twophase.simulate.steady import CHUNK, GROWN, held_sequences
from twophase.simulate.steady_loop import Load, Passes, Queueing, Solved, solve

Floats = NDArray[np.float64]
TOML = Path(twophase.calibration.__file__).with_name("served.toml")
ENGINES = ("vllm", "sglang", "trtllm")
APART = ("apart_front_s", "apart_request_s", "apart_burst", "apart_prompts")
OF_ENGINE = (
    *("pass_s", "sequence_s", "layer_s", "eager_s", "prompts", "front_s", "request_s", "waited"),
    *("burst", "burst_in_step"),
    *APART,
)
OF_QUEUEING = ("queue", "dp_waited")
READING = ("accepted", "perhaps_accepted")  # of the rows, not of engines
# (expected, how many times as much or as little is as likely as not, in logarithms)
EXPECTED: dict[str, tuple[float, float]] = {
    **{"read16": (0.75, 0.2), "read8": (0.6, 0.3), "read4": (0.5, 0.4), "flops16": (0.7, 0.2)},
    **{"flops8": (0.5, 0.3), "flops4": (0.4, 0.4), "experts_read": (0.6, 0.4), "experts_read4": (1.0, 0.3)},
    **{"experts_flops": (0.5, 0.5), "experts_flops4": (1.0, 0.3), "tile": (64.0, 0.7)},
    **{"skew": (0.9, 0.1), "imbalance": (1.2, 0.3), "cache_read": (0.6, 0.4), "decode_pairs": (0.3, 0.5)},
    **{"prompt_pairs": (0.45, 0.4), "recurrence": (0.01, 0.7), "reduced": (0.5, 0.4)},
    **{"reduction_s": (6e-6, 0.5), "exchanged": (0.4, 0.6), "exchange_s": (20e-6, 0.7)},
    **{"moe_layer_s": (20e-6, 0.7), "latent_layer_s": (15e-6, 0.7), "recurrent_layer_s": (15e-6, 0.7)},
    **{"pass_s": (0.5e-3, 0.8), "sequence_s": (8e-6, 0.8), "layer_s": (40e-6, 0.5), "prompts": (1.1, 0.3)},
    **{"front_s": (30e-3, 0.8), "request_s": (0.5e-3, 1.0), "burst": (0.05, 0.5), "waited": (2.0, 0.8)},
    **{"queue": (0.3, 0.7), "dp_waited": (4.0, 0.8), "apart_front_s": (0.15, 0.8)},
    **{"apart_request_s": (0.2e-3, 1.0), "apart_burst": (0.05, 0.6), "apart_prompts": (1.0, 0.5)},
    **{"accepted": (1.6, 0.3), "perhaps_accepted": (1.2, 0.3)},
    **{"eager_s": (100e-6, 0.7), "burst_in_step": (0.2, 0.8)},
}
BOUNDED = {name for name in Shares._fields if name.startswith(("read", "flops", "cache", "decode", "prompt"))}
BOUNDED |= {"experts_read", "reduced", "exchanged"}


class Points(NamedTuple):
    rows: tuple[Row, ...]
    decode: Device
    prefill: Device
    load: Load
    engine: NDArray[np.intp]
    replicas_apart: Floats  # 1: attention is data parallel
    drafts: NDArray[np.intp]  # 0, 1 known, 2 perhaps
    in_step: Floats  # 1: all requests are equally long
    ttft_s: Floats
    tpot_s: Floats
    weight: Floats


def points_of(rows: Sequence[Row]) -> Points:
    apart = np.array([float(row.point.disaggregated) for row in rows])
    return Points(
        rows=tuple(rows),
        decode=stacked([_device(row, row.decode) for row in rows]),
        prefill=stacked([_device(row, row.prefill) for row in rows]),
        load=Load(
            prompt=np.array([row.prompt for row in rows]),
            output=np.array([row.output for row in rows]),
            clients=np.array([row.clients / (row.workers * row.decode.plan.dp) for row in rows]),
            prompters=np.array([row.clients / (row.prompt_workers * row.prefill.plan.dp) for row in rows]),
            held=np.array(
                [held_sequences(r.decode, r.accelerator, r.prompt + GROWN * r.output) for r in rows]
            ),
            chunk=np.full(len(rows), float(CHUNK)),
            apart=apart,
            first=np.array([float(row.engine == "sglang") for row in rows]),
            accepted=np.ones(len(rows)),
        ),
        engine=np.array([ENGINES.index(row.engine) for row in rows]),
        replicas_apart=np.array([float(row.decode.plan.dp > 1) for row in rows]),
        drafts=np.array([("", "known", "perhaps").index(row.drafts) for row in rows]),
        in_step=np.array([float(not row.sweep) for row in rows]),
        ttft_s=np.array([row.point.ttft_s or np.nan for row in rows]),
        tpot_s=np.array([row.point.tpot_s or np.nan for row in rows]),
        weight=np.array([1.0 if row.known else 0.8 for row in rows]),
    )


_devices: dict[tuple[int, str], Device] = {}


def _device(row: Row, own: Deployment) -> Device:
    key = (hash(own), row.accelerator.name)
    if key not in _devices:
        _devices[key] = device_of(own, row.accelerator)
    return _devices[key]


NAMES = (
    *Shares._fields,
    *(f"{engine}.{name}" for engine in ENGINES for name in OF_ENGINE),
    *OF_QUEUEING,
    *READING,
)
CENTRE = np.log([EXPECTED[name.split(".")[-1]][0] for name in NAMES])
WIDTH = np.array([EXPECTED[name.split(".")[-1]][1] for name in NAMES])


def values_of(at: Floats) -> dict[str, float]:
    found = dict(zip(NAMES, np.exp(at).tolist(), strict=True))
    for name in BOUNDED:
        found[name] = (found[name] ** -6 + MOST**-6) ** (-1 / 6)
    return found


def predicted(at: Floats, own: Points) -> Solved:
    values = values_of(at)

    def of_engine(name: str) -> Floats:
        return np.array([values[f"{engine}.{name}"] for engine in ENGINES])[own.engine]

    known = Shares(*(values[name] for name in Shares._fields))
    host = EngineTimes(*map(of_engine, EngineTimes._fields))  # type: ignore[arg-type]
    apart = own.load.apart > 0

    def either(name: str) -> Floats:
        return np.where(apart, of_engine(f"apart_{name}"), of_engine(name))

    queueing = Queueing(
        front_s=either("front_s"),
        request_s=either("request_s"),
        burst=np.where(~apart & (own.in_step > 0), of_engine("burst_in_step"), either("burst")),
        queue=np.full(len(own.rows), values["queue"]),
        waited=np.where(apart, 0.0, of_engine("waited") + own.replicas_apart * values["dp_waited"]),
        prompts=either("prompts"),
    )
    accepted = np.array([1.0, values["accepted"], values["perhaps_accepted"]])[own.drafts]
    passes = (_passes(each, known, host) for each in (own.decode, own.prefill))
    return solve(*passes, own.load._replace(accepted=accepted), queueing)


def _passes(own: Device, known: Shares, host: EngineTimes) -> Passes:
    return Passes(
        lambda rows: rows_s(own, known, host, rows),
        lambda rows: mixed_s(own, known, host, rows),
        lambda rows: logits_s(own, known, host, rows),
        mixers_of(own, known),
    )


def robust(errors: Floats, scale: float) -> Floats:
    """Whose square grows like the error's size where that is large."""
    size = errors / scale
    return np.asarray(np.sign(size) * np.sqrt(2 * (np.sqrt(1 + size * size) - 1)))


def fitted(own: Points, start: Floats, rounds: int) -> Floats:
    def residuals(at: Floats) -> Floats:
        found = predicted(at, own)
        ttft, tpot = found.ttft_s / own.ttft_s, found.tpot_s / own.tpot_s
        return np.concatenate(
            [
                0.8 * own.weight * robust(np.log(tpot), 0.12),
                0.4 * own.weight * robust(tpot - 1, 0.1),
                1.0 * own.weight * robust(ttft - 1, 0.15),
                0.15 * own.weight * robust(np.log(ttft), 0.3),
                (at - CENTRE) / WIDTH,
            ]
        )

    return least_squares(residuals, start, rounds, nudge=1e-3, longest=0.7, least_gain=3e-4)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--models", type=Path, help="a folder of config.json files")
    parser.add_argument("--held", choices=["model", "system"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows, _ = read_rows(given.points, Models())
    rows = [row for row in rows if not impossible(row)]
    start = start_of()
    if given.held:
        parts = sorted({network(row) if given.held == "model" else row.system for row in rows})
        found = []
        for part in parts:
            mine = [(network(row) if given.held == "model" else row.system) == part for row in rows]
            rest = [row for row, own in zip(rows, mine, strict=True) if not own]
            at = fitted(points_of(rest[::2]), CENTRE, given.rounds)
            own = points_of([row for row, own in zip(rows, mine, strict=True) if own])
            solved = predicted(at, own)
            found += list(zip(own.rows, solved.ttft_s / own.ttft_s, solved.tpot_s / own.tpot_s, strict=True))
        print(table(found, given.held))
        return
    own = points_of(rows)
    at = fitted(own, start, given.rounds)
    solved = predicted(at, own)
    print(table(list(zip(own.rows, solved.ttft_s / own.ttft_s, solved.tpot_s / own.tpot_s, strict=True))))
    for name, value in values_of(at).items():
        print(f"{name:24s} {value:.3g}")
    if given.write:
        TOML.write_text(written(at, TOML.read_text(encoding="utf-8")), encoding="utf-8")
        tomllib.loads(TOML.read_text(encoding="utf-8"))


def network(row: Row) -> str:
    """DeepSeek V3, V3.1 and R1 are one network."""
    return row.model.replace("-R1", "-V3").replace("V3.1", "V3").replace("Meta-", "").split("-NVFP4")[0]


if __name__ == "__main__":
    main()
