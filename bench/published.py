"""Published speeds beside what arithmetic allows and what is predicted, with a reason for each miss.

    python bench/published.py --cases speed_cases.csv [--provenance served|curves]

Each row's times and rates are predicted from its model, hardware, format and clients alone: `floor` from the
roofs, and by what engines reach (`served`) or kernels' `curves`. A miss is off by more than half.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from serving_rows import storage_of

from twophase.calibration.engines import plain_name
from twophase.calibration.estimate import pass_times
from twophase.calibration.served_times import constants, covers
from twophase.cost.deployment import Deployment
from twophase.cost.spans import decodes
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator
from twophase.lint.deployed import floor
from twophase.lint.names import Models, network_of
from twophase.lint.served import Served, Sources, resolver
from twophase.model.catalogue import load_model
from twophase.results import Point
from twophase.results.reading import read_points
from twophase.simulate.steady import GROWN, Source, Steady, held_sequences, predict_steady
from twophase.simulate.steady_loop import Passes as Times
from twophase.simulate.steady_loop import decode_s

MISS = 1.5
MOST_SEQUENCES = 2048  # TensorRT-LLM's max_batch_size
DATACENTER = ("h100", "h200", "h800", "b200", "b300", "gb200", "gb300", "a100", "gh200")


def engine_of(point: Point) -> str:
    said = plain_name(point.engine or "")
    return next((name for name in constants()["engines"] if name in said), "vllm")


def rows_of(
    point: Point, served: Served, models: Models, known: Source
) -> Iterator[tuple[str, float, float, float]]:
    """(quantity, reported, at its floor, predicted): times in ms, rates a second."""
    model = load_model(models.find(point.model or ""))
    own = Deployment(
        model.spec,
        storage_of(model, point.weights or network_of(point.model or "")[1]),
        served.decode.own.kv_bytes,
        served.decode.own.plan,
    )
    prompt, output = point.input_tokens or 1.0, point.output_tokens or 2.0
    rate = point.output_tokens_per_s or (point.output_tokens_per_s_per_gpu or 0.0) * served.devices
    clients = point.concurrency or most_clients(own, served, prompt, output)
    if not point.concurrency and not (rate and not point.tpot_s):
        raise InputError("it does not say how many clients there were")
    if point.batch_is_resident:
        found, a_pass = (
            None,
            resident_pass(own, served.accelerator, engine_of(point), clients, prompt, output, known),
        )
    else:
        found = predict_steady(
            own, served.accelerator, engine_of(point), prompt, output, clients, provenance=known
        )
        a_pass = found.tpot_s
    together = max(1, int(clients / served.replicas if found is None else found.batch))
    context = int(prompt + output / 2)
    least = float(floor(served.decode, decodes(together, context), served.accelerator).seconds)
    per_user = point.output_tokens_per_s_per_user
    if point.tpot_s:
        yield "TPOT ms", point.tpot_s * 1e3, least * 1e3, a_pass * 1e3
    elif per_user:
        yield "tokens/s a user", per_user, 1 / least, 1 / a_pass
    if point.ttft_s and found:
        alone = predict_steady(
            own, served.accelerator, engine_of(point), prompt, output, 1, provenance="floor"
        ).prompt_s
        yield "TTFT ms", point.ttft_s * 1e3, alone * 1e3, found.ttft_s * 1e3
    if rate:
        yield "output tokens/s", rate, clients / least, output_rate(found, clients, a_pass, output)


def most_clients(own: Deployment, served: Served, prompt: float, output: float) -> float:
    """Of a maximum throughput, as vendors publish it: as many as memory holds, and engines admit."""
    held = held_sequences(own, served.accelerator, prompt + GROWN * output)
    return min(held, MOST_SEQUENCES) * served.replicas


def output_rate(found: Steady | None, clients: float, a_pass: float, output: float) -> float:
    return clients / a_pass if found is None else found.requests_per_s * output


def resident_pass(
    own: Deployment,
    accelerator: Accelerator,
    engine: str,
    batch: float,
    prompt: float,
    output: float,
    known: Source,
) -> float:
    """Of a batch that is decoded from its first token to its last together."""
    most = int(batch) + 2
    times = pass_times(own, accelerator, engine, max_rows=most, max_sequences=most, provenance=known)
    at = Times(
        lambda rows: np.interp(rows, np.arange(len(times.decode_rows_s)), times.decode_rows_s),
        lambda rows: np.interp(rows, np.arange(len(times.rows_s)), times.rows_s),
        lambda rows: np.interp(rows, np.arange(len(times.logits_s)), times.logits_s),
        times.mixers,
    )
    return float(decode_s(at, np.array([batch]), np.array([prompt + output / 2]))[0])


def why(point: Point, served: Served, ratio: float, reported: float, least: float, is_time: bool) -> str:
    """What a row has that the prediction does not know."""
    if (reported < least) == is_time and reported != least:
        return "the row beats its floor: see `twophase lint`"
    if not any(name in served.accelerator.name for name in DATACENTER):
        return "constants are of data-centre NVIDIA parts in the big engines; this is another kind of machine"
    if "spec" in point.notes.lower() or "mtp" in point.notes.lower() or "eagle" in point.notes.lower():
        return "speculative decoding, whose acceptance the row does not say"
    if not point.input_tokens:
        return "the row does not say how long prompts were"
    slower = (ratio < 1) == is_time
    return (
        "slower than engines of 2025-26 serve" if slower else "faster than the mean of engines and machines"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--provenance", choices=["served", "curves"], default="served")
    given = parser.parse_args()
    models = Models()
    served_of = resolver(Sources(models))
    ratios: list[float] = []
    floors: list[float] = []
    covered: list[bool] = []
    unknown: list[str] = []
    print(
        f"{'case':9}{'model':28}{'hardware':16}{'':17}{'reported':>10}{'floor':>10}{given.provenance:>10}{'':>7}"
    )
    for point in read_points(given.cases):
        try:
            served = served_of(point)
            for name, reported, least, ours in rows_of(point, served, models, given.provenance):
                ratio, is_time = ours / reported, name.endswith("ms")
                ratios.append(ratio)
                floors.append(least / reported)
                covered.append(covers(served.accelerator))
                off = max(ratio, 1 / ratio) > MISS
                note = f"  {why(point, served, ratio, reported, least, is_time)}" if off else ""
                print(
                    f"{point.row:9}{(point.model or '')[:27]:28}{(point.gpu or '')[:15]:16}{name:17}"
                    f"{reported:10.4g}{least:10.4g}{ours:10.4g}{ratio:7.2f}{note}"
                )
        except (InputError, ZeroDivisionError) as error:
            unknown.append(f"{point.row}: {error}")
    fitted, own = np.array(covered), np.array(ratios)
    parts = {"floor": np.array(floors), given.provenance: own}
    parts |= {"machines in the fit": own[fitted], "other machines": own[~fitted]}
    for title, found in parts.items():
        off = np.abs(found - 1)
        log = np.exp(np.median(np.abs(np.log(found))))
        print(f"{title}: {len(off)} figures, median error {np.median(off):.0%}, median factor {log:.2f}")
    print("\n".join(["not predicted:", *unknown]))


if __name__ == "__main__":
    main()
