"""How long a plan takes: candidates that are judged, and simulated, a second.

    python bench/plan.py [--processes 2] [--rate 60]

Bar: 10,000 candidates of one model in under 60 s on 2 cores, bounds and simulation together. A first small
plan is not timed: it compiles, or loads what was compiled. Candidates are counted with both engine options
and every number of replicas, whole ones and those split by phase apart.
"""

import argparse
import sys
import time

from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.model.served import served
from twophase.plan.ledger import Ledger
from twophase.plan.question import Question
from twophase.plan.search import cheapest, look
from twophase.plan.slo import Slo
from twophase.plan.space import Space
from twophase.plan.workers import local
from twophase.simulate.presets import PRESETS
from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import lengths_of
from twophase.workload.synthetic import Recipe, synthetic

GPUS = ("h100-sxm", "h200", "a100-80gb", "l40s", "mi300x")


def question(rate: float, requests: int, split: bool, gpus: tuple[str, ...] = GPUS) -> Question:
    model = load_model("llama-3.1-8b")
    devices = {name: load_accelerator(name) for name in gpus}
    lengths = [lengths_of("", f"lognormal:{size},0.5") for size in (1000, 200)]
    return Question(
        models={"": model, "fp8": served(model, "fp8")},
        accelerators=devices,
        prices={name: each.price_per_hour or 1.0 for name, each in devices.items()},
        workload=synthetic(Recipe(Arrivals(rate), *lengths), requests, "0"),
        slo=Slo(ttft_s=0.5, tpot_s=0.03),
        space=Space(
            gpus,
            weights=("", "fp8"),
            kv=("bf16", "fp8"),
            max_tokens=(2048, 8192),
            max_sequences=(64, 256),
            disaggregated=split,
        ),
        preset=PRESETS["vllm"],
        context_length=8192,
        max_gpus=64,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rate", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=2000)
    options = parser.parse_args()
    with local(question(5.0, 100, True, GPUS[:1]), 1) as work:
        own = question(5.0, 100, True, GPUS[:1])
        cheapest(own, look(own, work, show), Ledger(work), show)
    for split in (False, True):
        own = question(options.rate, options.requests, split)
        began = time.perf_counter()
        with local(own, options.processes) as work:
            looked = look(own, work, show)
            bounds_s = time.perf_counter() - began
            ledger = Ledger(work)
            best = cheapest(own, looked, ledger, show)
        took = time.perf_counter() - began
        print(
            f"{'whole and split' if split else 'whole'}: {looked.considered:,} candidates in {took:.1f} s "
            f"({bounds_s:.1f} s bounds), {looked.considered - looked.left:,} ruled out by bounds, "
            f"{len(ledger.trials):,} simulated; "
            + (f"{best.usd_per_hour:.2f} USD/h" if best else "nothing keeps the SLO")
        )
    return 0


def show(doing: str, share: float) -> None:
    """Nothing: a bar would be timed, too."""


if __name__ == "__main__":
    sys.exit(main())
