"""How fast a sweep is: floors of decode steps of many models on many accelerators, batches and contexts.

    python bench/sweep.py

Prints points a second as arrays, and beside it what the same floors cost one by one, in the same run.
"""

import time
from collections.abc import Callable

import numpy as np

from twophase.cost.deployment import Deployment
from twophase.cost.operators import works
from twophase.cost.roofline import floor, floor_of
from twophase.cost.spans import decodes
from twophase.hardware.catalogue import accelerators
from twophase.model.catalogue import load_model

MODELS = ("llama-3-8b", "llama-3-70b", "qwen3-8b", "gemma-3-27b", "mistral-7b")
BATCHES = np.arange(1, 129)[:, None]
CONTEXTS = np.geomspace(128, 131_072, 32).astype(int)
ALONE = 300  # points that are also counted one by one
RUNS = 5


def sweep() -> int:
    """How many floors were counted."""
    points = 0
    for name in MODELS:
        model = load_model(name)
        moved = works(Deployment(model.spec, model.storage), decodes(BATCHES, CONTEXTS))
        for accelerator in accelerators().values():
            points += floor_of(moved, accelerator).seconds.size
    return points


def one_by_one() -> int:
    model, accelerator = load_model(MODELS[0]), accelerators()["h100-sxm"]
    own = Deployment(model.spec, model.storage)
    for i in range(ALONE):
        floor(own, decodes(1 + i % 128, 128 + i), accelerator)
    return ALONE


def rate(points: Callable[[], int]) -> float:
    """Points a second, the median of some runs."""
    rates = []
    for _ in range(RUNS):
        start = time.perf_counter()
        made = points()
        rates.append(made / (time.perf_counter() - start))
    return float(np.median(rates))


def main() -> None:
    for name in MODELS:  # reading models is not what is measured
        load_model(name)
    together, alone, points = rate(sweep), rate(one_by_one), sweep()
    print(f"{points:,} floors of {len(MODELS)} models on {len(accelerators())} accelerators")
    print(f"as arrays  {together:14,.0f} points/s   {points / together:.2f} s in all")
    print(f"one by one {alone:14,.0f} points/s   {together / alone:,.0f} times slower")


if __name__ == "__main__":
    main()
