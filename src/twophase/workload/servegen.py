"""ServeGen's clients (Xiang et al. 2025): windows with a rate and a law of gaps, and the lengths of each.

A folder holds chunk-N-trace.csv (window's start in s, rate, coefficient of variation, law, shape, scale) and
chunk-N-dataset.json or .json.gz (windows of six hours: shares of input and of output tokens) for each client.
"""

import ast
import csv
import gzip
import json
import os
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from twophase.errors import InputError, damaged
from twophase.workload.seeded import generator
from twophase.workload.workload import Floats, Ints, Workload

WINDOW_S, LENGTHS_S = 600, 21_600
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Window:
    begin_s: int
    rate: float
    law: str  # Gamma, Weibull; else exponential
    shape: float
    scale: float


def is_servegen(folder: Path) -> bool:
    return os.path.isdir(folder) and any(folder.glob("chunk-*-trace.csv"))


def read_servegen(folder: Path, seed: str, most: int | None, lasting_s: float | None = None) -> Workload:
    """What its clients send together from the first window with requests on, for an hour or `lasting_s`."""
    clients = {path: windows_of(path) for path in sorted(folder.glob("chunk-*-trace.csv"))}
    begin = min((each.begin_s for own in clients.values() for each in own), default=inf)
    if begin == inf:
        raise InputError(f"{folder} has no window with requests")
    end = begin + (lasting_s or HOUR_S)
    times, prompts, outputs = [], [], []
    for path, windows in clients.items():
        rng = generator(seed, path.name)
        mine = [each for each in windows if each.begin_s < end]
        lengths = lengths_of(path, {each.begin_s // LENGTHS_S for each in mine})
        for each in mine:
            known = lengths.get(each.begin_s // LENGTHS_S)
            if known is None:
                continue
            at = each.begin_s + drawn_times(each, rng)
            at = at[at < end]
            times.append(at)
            prompts.append(drawn_lengths(known[0], len(at), rng))
            outputs.append(drawn_lengths(known[1], len(at), rng))
    arrival = np.concatenate(times) if times else np.zeros(0)
    if not arrival.size:
        raise InputError(f"{folder} has no request in its first {end - begin:g} s")
    order = np.argsort(arrival, kind="stable")
    arrival = np.round((arrival[order] - arrival[order[0]]) * 1e9) / 1e9  # as equal on every machine
    note = f"ServeGen: {len(clients)} clients, from {begin} s for {end - begin:g} s; lengths drawn apart"
    made = Workload(arrival, np.concatenate(prompts)[order], np.concatenate(outputs)[order], notes=(note,))
    return made.first(most)


def windows_of(path: Path) -> list[Window]:
    """Those in which the client sends anything."""
    found = []
    with damaged(path), path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            try:
                begin, rate, _, law, shape, scale = row
                if float(rate) > 0:
                    found.append(Window(round(float(begin)), float(rate), law, float(shape), float(scale)))
            except ValueError:
                raise InputError(
                    f"{path}, line {number}: six values are wanted, three of them numbers"
                ) from None
    return found


def drawn_times(window: Window, rng: np.random.Generator) -> Floats:
    """Within the window, from its beginning."""
    found = np.zeros(0)
    while not found.size or found[-1] < WINDOW_S:
        count = round(window.rate * WINDOW_S * 1.2) + 16
        last = found[-1] if found.size else 0.0
        found = np.concatenate([found, last + np.cumsum(gaps(window, count, rng))])
    return found[found < WINDOW_S]


def gaps(window: Window, count: int, rng: np.random.Generator) -> Floats:
    match window.law:
        case "Gamma":
            return rng.gamma(window.shape, window.scale, count)
        case "Weibull":
            return window.scale * rng.weibull(window.shape, count)
    return rng.exponential(1 / window.rate, count)


Shares = tuple[Ints, Floats]  # token counts, and the cumulative share of requests that have no more


def lengths_of(trace: Path, wanted: set[int]) -> dict[int, tuple[Shares, Shares]]:
    """(prompts, outputs) by window of six hours, where the client has any."""
    if not wanted:
        return {}
    plain = trace.with_name(trace.name.replace("-trace.csv", "-dataset.json"))
    packed = plain.with_name(f"{plain.name}.gz")
    path = packed if packed.is_file() else plain
    with damaged(path):
        text = gzip.decompress(path.read_bytes()).decode() if path is packed else path.read_text()
        windows = json.loads(text)
        found = {}
        for window in wanted:
            own = windows.get(str(window * LENGTHS_S))
            if own and own["input_tokens"] != "{}" and own["output_tokens"] != "{}":
                found[window] = (shares_of(own["input_tokens"]), shares_of(own["output_tokens"]))
        return found


def shares_of(text: str) -> Shares:
    known: dict[int, float] = ast.literal_eval(text)
    return np.array(list(known), np.int64), np.cumsum(list(known.values()))


def drawn_lengths(shares: Shares, count: int, rng: np.random.Generator) -> Ints:
    tokens, up_to = shares
    at = np.searchsorted(up_to, rng.random(count) * up_to[-1], side="right")
    return np.asarray(np.maximum(tokens[np.minimum(at, len(tokens) - 1)], 1))
