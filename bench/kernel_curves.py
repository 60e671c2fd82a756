"""Fits the curves of src/twophase/calibration/curves.json, and shows their error on shapes held back.

    TWOPHASE_SHARED=… python bench/kernel_curves.py [--write] [--docs FILE]

A third of the shapes is held back: whole pairs of (n, k), whole mixtures of experts, whole pairs of heads.
The error is of a fit without them; what is shipped is then fitted on all.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import kernel_tables as tables
import numpy as np
from kernel_entries import Held, norm_numbers
from kernel_errors import tables_of
from kernel_mixers import attention_curves, latent_curves, recurrence_curve
from kernel_multiplies import exchange_curves, expert_curves, gemm_curves
from kernel_profiles import little_known, profiled, profiled_small
from table import put_between_markers

from twophase.hardware.catalogue import load_accelerator

FILE = Path(__file__).parents[1] / "src/twophase/calibration/curves.json"
# FlashAttention 2, beside prompts: each query's head reads the cache for itself, half of it from the L2
# cache. Over the bandwidth: once, and for each query that shares a key. Of LLMServingSim's mixed passes (RTX
# 4090, RTX PRO 6000; three models, one and two devices: 0.46 to 0.55); the same kernel runs on the others.
MIXED = [0.1, 0.5]
FLASH_2 = ("a100-80gb", "l40s", "rtx-4090", "rtx-pro-6000-server")
RELATIVES = {
    **dict.fromkeys(("h100-pcie", "h100-nvl", "h800"), "h100-sxm"),
    **dict.fromkeys(("gh200", "gh200-144gb"), "h200"),
    **dict.fromkeys(("b300", "gb200", "gb300"), "b200"),
    **dict.fromkeys(("rtx-pro-6000", "rtx-5090", "rtx-5080", "dgx-spark"), "rtx-pro-6000-server"),
    **dict.fromkeys(("l40", "l20", "l4", "rtx-6000-ada"), "l40s"),
    **dict.fromkeys(
        ("a100-80gb-pcie", "a100-40gb", "a100-40gb-pcie", "a800", "a40", "a30", "a10", "a10g"), "a100-80gb"
    ),
    "AMD": "mi210",
    "Google": "tpu-v6e",
    "NVIDIA": "a100-80gb",
    "other": "a100-80gb",
}


def small_kernels(root: Path, machine: str) -> list[float]:
    """Norms of the machine, or of its nearest that were timed apart."""
    if machine == "l40s":
        return profiled_small(root, "rtx-4090", load_accelerator("rtx-4090"))
    like = "a100-80gb" if machine == "a100-80gb" else "h100-sxm"
    rows, width, measured = tables.columns(tables.norm_table(root, like), "tokens", "width", "s")
    return norm_numbers(rows, width, measured, load_accelerator(like))


def machine_entry(root: Path, machine: str, held: list[Held]) -> dict[str, Any]:
    accelerator = load_accelerator(machine)
    found: dict[str, Any] = {
        "source": f"ai-dynamo/aiconfigurator (Apache-2.0), vLLM {tables.MACHINES[machine][1]}",
        "gemm": gemm_curves(root, machine, accelerator, held),
        "experts": expert_curves(root, machine, accelerator, held),
        "attention": attention_curves(root, machine, accelerator, held),
        "latent": latent_curves(root, machine, accelerator),
        "exchange": exchange_curves(root, machine, accelerator, held),
        "small": small_kernels(root, machine),
        "fast_link": machine != "l40s",
    }
    found["gemm"].setdefault("w4a16", found["gemm"]["bf16"])
    found["experts"].setdefault("w4a16", found["experts"].get("mxfp4", found["experts"]["bf16"]))
    found["recurrence"] = recurrence_curve(root, machine, accelerator, held)
    return found


def interval(held: list[Held], machine: str) -> list[float]:
    """Of four in five of its kernels: measured over estimated."""
    ratios = np.concatenate([1 / (1 + each.error) for each in held if each.machine == machine])
    low, high = np.quantile(ratios, [0.1, 0.9])
    return [round(float(low), 3), round(float(high), 3)]


def fit_all(root: Path, held: list[Held]) -> dict[str, Any]:
    machines: dict[str, Any] = {}
    for machine in tables.MACHINES:
        print(machine, file=sys.stderr)
        machines[machine] = machine_entry(root, machine, held)
        if machines[machine]["recurrence"] is None:
            machines[machine]["recurrence"] = machines["h100-sxm"]["recurrence"]
    for machine in tables.PROFILED:
        machines[machine] = {**profiled(root, machine, held), "else": "l40s"}
    for machine in ("h20", "mi210", "tpu-v6e"):
        machines[machine] = little_known(root, machine, held)
    for name, each in machines.items():
        each["interval"] = interval(held, name)
        if name in FLASH_2:
            each["mixed"] = MIXED
    return {
        "licence": "fitted by this project; the tables are Apache-2.0 and MIT, as each machine's source says",
        "slow_link": 65e9,
        "links": {"true": "h100-sxm", "false": "l40s"},
        "relatives": RELATIVES,
        "machines": machines,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write curves.json anew")
    parser.add_argument("--docs", type=Path, help="put the tables between the marks of this page")
    asked = parser.parse_args()
    root = Path(os.environ["TWOPHASE_SHARED"]) / "data/measured"
    held: list[Held] = []
    found = fit_all(root, held)
    if asked.write:
        FILE.write_text(json.dumps(found, separators=(",", ":")).replace('"grids"', '\n"grids"') + "\n")
    text = tables_of(held, root)
    print(text)
    if asked.docs:
        page = asked.docs.read_text(encoding="utf-8")
        asked.docs.write_text(put_between_markers(page, text, "bench/kernel_curves.py"), encoding="utf-8")


if __name__ == "__main__":
    main()
