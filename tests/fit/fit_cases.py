"""What engines printed about their memory, a row a log, and the fit that each row asks for."""

import csv
import json
from dataclasses import replace
from pathlib import Path

from twophase.cost.parallel import Plan
from twophase.fit.fit import Fit, fit
from twophase.fit.serving import Serving
from twophase.hardware.accelerator import Accelerator
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import Model
from twophase.model.hf_config import spec_from_config
from twophase.model.quantization import read_storage, uniform

GIB = 2**30
Row = dict[str, str]


def rows() -> dict[str, Row]:
    with (Path(__file__).parents[1] / "data" / "fit_cases.csv").open(newline="") as file:
        return {row["case"]: row for row in csv.DictReader(file)}


def model_of(row: Row) -> Model:
    config = json.loads(row["config"])
    storage = uniform(row["weights"]) if row["weights"] else read_storage(config, row["case"])
    return Model(spec_from_config(config, row["model"], row["case"]), storage)


def accelerator_of(row: Row) -> Accelerator:
    """As large as the log says, where it does."""
    own = load_accelerator(row["gpu"] or "h200")
    return replace(own, memory_bytes=float(row["memory_gib"]) * GIB) if row["memory_gib"] else own


def has_device(row: Row) -> bool:
    """Whether the log says on what, and with which share of it."""
    return bool(row["utilization"] and (row["gpu"] or row["memory_gib"]))


def serving_of(row: Row, *given: str) -> Serving:
    """`given`: the terms to take from the log, of weights, activation, non_torch, kv."""
    terms = {name: float(row[f"{name}_gib"]) * GIB for name in given if row[f"{name}_gib"]}
    return Serving(
        engine=row["engine"],  # type: ignore[arg-type]
        version=row["version"] or None,
        plan=Plan(tp=int(row["tp"]), pp=int(row["pp"])),
        kv=row["kv"],
        utilization=float(row["utilization"]) if row["utilization"] else None,
        max_model_len=int(row["max_model_len"]),
        weights_bytes=terms.get("weights"),
        activation_bytes=terms.get("activation"),
        non_torch_bytes=terms.get("non_torch"),
        kv_pool_bytes=terms.get("kv"),
    )


def fit_of(row: Row, *given: str) -> Fit:
    return fit(model_of(row), accelerator_of(row), serving_of(row, *given))


# Logs that GPU and flags alone do not explain, and why.
MISSES = {
    "FIT-29": "GPU and profiling run are not in the report; the log's pool is 1.9 GiB larger than ours",
    "FIT-49": "the processor shares the memory; what it had free is not in the report",
    "FIT-61": "the batch that the engine was built for is not in the report; 3 GiB less are left than here",
    "FIT-65": "31,615 blocks before vllm#2031, ours within 2 %; what it then kept back is not explained here",
}
