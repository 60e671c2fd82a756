"""Fit the constants of calibration/served.toml to measured serving points, and say how they generalise.

    python bench/fit_serving.py --points serving_points.csv [--write] [--held model|system]

Robust least squares (Levenberg-Marquardt) of relative errors over the constants' logarithms. --held: each
model, or each system, is predicted by a fit to all others, which begins where the constants are expected.
"""

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from levenberg_marquardt import least_squares
from numpy.typing import NDArray
from serving_constants import CENTRE, ENGINES, TOML, start_of, unexpected, values_of, written
from serving_errors import Scored, impossible, table
from serving_rows import Row, read_rows

from twophase.calibration.served_device import Device, device_of, stacked
from twophase.calibration.served_times import EngineTimes, Shares, logits_s, mixed_s, mixers_of, rows_s
from twophase.cost.deployment import Deployment
from twophase.lint.names import Models
from twophase.simulate.steady import GROWN, held_sequences
from twophase.simulate.steady_loop import Load, Passes, Queueing, Solved, once, solve

Floats = NDArray[np.float64]
NUDGE = 1e-4  # of a constant's logarithm, and of a batch, for slopes
STEEPEST = 0.9  # of what a sequence more in a pass adds to those that would be in it: the fixed point is one


class Points(NamedTuple):
    rows: tuple[Row, ...]
    decode: Device
    prefill: Device
    load: Load
    engine: NDArray[np.intp]
    drafts: NDArray[np.intp]  # 0, 1 known, 2 perhaps
    in_step: Floats  # 1: all requests are equally long
    looks: Floats
    ttft_s: Floats
    tpot_s: Floats
    weight: Floats


def points_of(rows: Sequence[Row]) -> Points:
    def column(values: Sequence[float]) -> Floats:
        return np.array(values, np.float64)

    return Points(
        rows=tuple(rows),
        decode=stacked([_device(row, row.decode) for row in rows]),
        prefill=stacked([_device(row, row.prefill) for row in rows]),
        load=Load(
            prompt=column([row.prompt for row in rows]),
            output=column([row.output for row in rows]),
            clients=column([row.clients / (row.workers * row.decode.plan.dp) for row in rows]),
            prompters=column([row.clients / (row.prompt_workers * row.prefill.plan.dp) for row in rows]),
            held=column([held_sequences(r.decode, r.accelerator, r.prompt + GROWN * r.output) for r in rows]),
            chunk=column([row.chunk for row in rows]),
            apart=column([row.point.disaggregated for row in rows]),
            first=column([row.engine == "sglang" for row in rows]),
            accepted=np.ones(len(rows)),
        ),
        engine=np.array([ENGINES.index(row.engine) for row in rows]),
        drafts=np.array([("", "known", "perhaps").index(row.drafts) for row in rows]),
        in_step=column([row.in_step for row in rows]),
        looks=column([row.looks for row in rows]),
        ttft_s=column([row.point.ttft_s or np.nan for row in rows]),
        tpot_s=column([row.point.tpot_s or np.nan for row in rows]),
        weight=column([1.0 if row.known else 0.8 for row in rows]),
    )


_devices: dict[tuple[int, str], Device] = {}


def _device(row: Row, own: Deployment) -> Device:
    key = (hash(own), row.accelerator.name)
    if key not in _devices:
        _devices[key] = device_of(own, row.accelerator)
    return _devices[key]


class Asked(NamedTuple):
    """What the fixed point is of."""

    decoding: Passes
    prompting: Passes
    load: Load
    queueing: Queueing


def asked(at: Floats, own: Points) -> Asked:
    values = values_of(at)

    def of_engine(name: str) -> Floats:
        return np.array([values[f"{engine}.{name}"] for engine in ENGINES])[own.engine]

    known = Shares(*(values[name] for name in Shares._fields))
    host = EngineTimes(*map(of_engine, EngineTimes._fields))  # type: ignore[arg-type]
    apart, step, first = own.load.apart > 0, own.in_step > 0, own.load.first > 0
    queueing = Queueing(
        front_s=of_engine("front_s"),
        request_s=np.where(apart, values["apart_request_s"], of_engine("request_s")),
        burst=np.where(step & first, values["merged"], values["burst"]),
        together=np.where(step & ~first, values["together"], 0.0),
        waited=np.where(apart, values["apart_waited"], values["waited"] + values["looked"] * (own.looks - 1)),
        prompts=np.full(len(own.rows), values["prompts"]),
    )
    accepted = np.array([1.0, values["accepted"], values["perhaps_accepted"]])[own.drafts]
    passes = (_passes(each, known, host) for each in (own.decode, own.prefill))
    return Asked(*passes, own.load._replace(accepted=accepted), queueing)


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


def errors_of(found: Solved, own: Points) -> Floats:
    ttft, tpot = found.ttft_s / own.ttft_s, found.tpot_s / own.tpot_s
    return np.concatenate(
        [
            0.8 * own.weight * robust(np.log(tpot), 0.12),
            0.4 * own.weight * robust(tpot - 1, 0.1),
            1.0 * own.weight * robust(ttft - 1, 0.15),
            0.15 * own.weight * robust(np.log(ttft), 0.3),
        ]
    )


def slopes_of(at: Floats, own: Points) -> Floats:
    """Of the errors: a constant moves TTFT and TPOT, and the batch at which they stand still."""
    here = asked(at, own)
    batch = solve(*here).batch
    found, resident = once(*here, batch)
    more, more_resident = once(*here, batch * (1 + NUDGE))
    follows = 1 / np.maximum(1 - (more_resident - resident) / (batch * NUDGE), 1 - STEEPEST)
    errors, columns = errors_of(found, own), []
    for nudge in NUDGE * np.eye(len(at)):
        moved, moved_resident = once(*asked(at + nudge, own), batch)
        turned = (moved_resident - resident) * follows / (batch * NUDGE)
        then = moved._replace(
            ttft_s=moved.ttft_s + turned * (more.ttft_s - found.ttft_s),
            tpot_s=moved.tpot_s + turned * (more.tpot_s - found.tpot_s),
        )
        columns.append((errors_of(then, own) - errors) / NUDGE)
    return np.stack(columns, axis=1)


def fitted(own: Points, start: Floats, rounds: int) -> Floats:
    expected = np.stack([unexpected(CENTRE + one) for one in np.eye(len(CENTRE))], axis=1)
    return least_squares(
        lambda at: np.concatenate([errors_of(solve(*asked(at, own)), own), unexpected(at)]),
        start,
        rounds,
        slopes=lambda at: np.concatenate([slopes_of(at, own), expected]),
        longest=0.7,
        least_gain=3e-4,
    )


def scored(at: Floats, own: Points) -> list[Scored]:
    found = solve(*asked(at, own))
    return list(zip(own.rows, found.ttft_s / own.ttft_s, found.tpot_s / own.tpot_s, strict=True))


def held_out(rows: Sequence[Row], held: str, rounds: int) -> list[Scored]:
    labels = [network(row) if held == "model" else row.system for row in rows]
    found: list[Scored] = []
    for part in sorted(set(labels)):
        rest = [row for row, label in zip(rows, labels, strict=True) if label != part]
        at = fitted(points_of(rest), CENTRE, rounds)
        found += scored(
            at, points_of([row for row, label in zip(rows, labels, strict=True) if label == part])
        )
    return found


def network(row: Row) -> str:
    """DeepSeek V3, V3.1 and R1 are one network."""
    return row.model.replace("-R1", "-V3").replace("V3.1", "V3").replace("Meta-", "").split("-NVFP4")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--held", choices=["model", "system"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows, _ = read_rows(given.points, Models())
    rows = [row for row in rows if not impossible(row)]
    if given.held:
        print(table(held_out(rows, given.held, given.rounds)))
        return
    own = points_of(rows)
    at = fitted(own, start_of(), given.rounds)
    print(table(scored(at, own)))
    for name, value in values_of(at).items():
        print(f"{name:24s} {value:.3g}")
    if given.write:
        TOML.write_text(written(at, TOML.read_text(encoding="utf-8")), encoding="utf-8")
        tomllib.loads(TOML.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
