"""Real vLLM runs request by request: simulate the same arrivals, compare mean TTFT and TPOT.

    python bench/serving_runs.py --runs llmservingsim/bench [--provenance served|curves|floor]

Each run's folder has vllm/meta.json (the engine's configuration) and vllm/requests.jsonl (300 requests with
arrival, lengths and times). Nothing of the run is fitted: engine options and number of KV blocks are its own.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.cost.parallel import Plan
from twophase.simulate.outcome import Run
from twophase.simulate.pools import Sizes
from twophase.simulate.run import simulate
from twophase.workload.workload import Workload

Floats = NDArray[np.float64]
GPUS = {"RTX4090": "rtx-4090", "RTXPRO6000": "rtx-pro-6000", "H100": "h100-sxm"}


@dataclass(frozen=True, slots=True)
class Measured:
    name: str
    meta: dict[str, Any]
    workload: Workload
    ttft_s: Floats
    tpot_s: Floats


def read_run(folder: Path) -> Measured:
    rows = [json.loads(line) for line in (folder / "vllm" / "requests.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: row["arrival_time"])
    column = {
        name: np.array([row[name] for row in rows], np.float64) for name in rows[0] if name != "request_id"
    }
    arrival = column["queued_ts"] - column["queued_ts"].min()  # engine's clock: when it saw the request
    outputs = column["output_toks"]
    order = np.argsort(arrival, kind="stable")
    ttft = column["first_token_ts"] - column["queued_ts"]
    tpot = (column["last_token_ts"] - column["first_token_ts"]) / np.maximum(outputs - 1, 1)
    return Measured(
        name=f"{folder.parent.name} {folder.name}",
        meta=json.loads((folder / "vllm" / "meta.json").read_text()),
        workload=Workload(
            arrival_s=arrival[order],
            prompt_tokens=column["input_toks"][order].astype(np.int64),
            output_tokens=outputs[order].astype(np.int64),
        ),
        ttft_s=ttft[order],
        tpot_s=tpot[order],
    )


def simulated(own: Measured, gpu: str, provenance: str) -> Run:
    options, cache = own.meta["engine_kwargs"], own.meta.get("kv_cache", {})
    tp, dp = options["tensor_parallel_size"], options["data_parallel_size"]
    ep = tp * dp if options["enable_expert_parallel"] else 1
    longest = int((own.workload.prompt_tokens + own.workload.output_tokens).max())
    return simulate(
        own.meta["model"],
        gpu,
        own.workload,
        "vllm",
        plan=Plan(tp, 1, ep, dp),
        sizes=Sizes(
            max_tokens=options["max_num_batched_tokens"],
            max_sequences=options["max_num_seqs"],
            context_length=options["max_model_len"] or longest,
            blocks=cache.get("num_gpu_blocks"),
            prefix_cache=False,
        ),
        provenance=provenance,  # type: ignore[arg-type]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--provenance", choices=["served", "curves", "floor"], default="curves")
    given = parser.parse_args()
    for meta in sorted(given.runs.rglob("vllm/meta.json")):
        own = read_run(meta.parent.parent)
        machine = meta.parent.parent.parent.name
        run = simulated(own, GPUS.get(machine, machine.lower()), given.provenance)
        print(own.name, f"({len(own.workload)} requests, {given.provenance})")
        for name, measured, ours in (("TTFT", own.ttft_s, run.ttft_s), ("TPOT", own.tpot_s, run.tpot_s)):
            for what, of in (("mean", np.nanmean), ("median", np.nanmedian)):
                one, other = float(of(measured)), float(of(ours))
                print(f"  {name} {what:7}{one * 1e3:12.1f} ms measured{other * 1e3:12.1f} simulated", end="")
                print(f"{other / one - 1:+8.1%}")


if __name__ == "__main__":
    main()
