"""How fast simulations are: ours, and peers on the same arrivals, lengths, policy and shape of cost.

python bench/simulator.py --trace AzureLLMInferenceTrace_conv.csv [--sched-sim PYTHON] [--vidur CHECKOUT]

Lengths are the trace's, arrivals Poisson. Each run is a process of its own; peers take their turn after ours.
`run`: simulation and metrics, the best of three for ours, by the clock and by CPU time
(on a machine that others use, too, the clock counts them). `process`: from start to results. PYTHON: of an
environment with the package `sched-sim`. CHECKOUT: of microsoft/vidur, with VIDUR_PYTHON for its environment.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

PARAMETERS, BANDWIDTH, PEAK, OVERHEAD_S = 8.03e9, 2.039e12 * 0.85, 312e12 * 0.7, 2e-3
LAYERS, KV_HEADS, HEADS, HEAD_DIM = 32, 8, 32, 128
BLOCKS, SEQUENCES, BUDGET, LONGEST = 27_000, 512, 512, 4096
KV_TOKEN_BYTES = 4 * LAYERS * KV_HEADS * HEAD_DIM
SIZES = ((2_000, 6.0), (2_000, 9.5), (20_000, 6.0), (20_000, 9.5))  # requests; a second: below, at saturation


def workload(trace: Path, count: int, rate: float):
    import numpy as np

    rows = [line.split(",")[1:3] for line in trace.read_text().splitlines()[1:] if line]
    lengths = np.minimum(np.array(rows, np.int64), LONGEST)
    lengths = np.resize(np.maximum(lengths, 1), (count, 2))
    arrival_s = np.cumsum(np.random.Generator(np.random.PCG64(0)).exponential(1 / rate, count))
    return arrival_s, lengths[:, 0], lengths[:, 1]


def ours(trace: Path, count: int, rate: float, keyed: bool) -> dict[str, float]:
    import numpy as np

    from twophase.cost.pass_times import PassTimes
    from twophase.scheduler.request import Limits
    from twophase.simulate.books import FINISHED_S, FIRST_TOKEN_S, PASSES, PRODUCED
    from twophase.simulate.outcome import gaps_of
    from twophase.simulate.setting_up import requests_of
    from twophase.simulate.simulation import simulate_replica

    rows = np.arange(2 * LONGEST + 1.0)
    rows_s = OVERHEAD_S + np.maximum(2 * PARAMETERS / BANDWIDTH, 2 * PARAMETERS * rows / PEAK)
    pair_flops = 4.0 * HEADS * HEAD_DIM * LAYERS
    kv_s = KV_TOKEN_BYTES / BANDWIDTH
    mixers = np.array([[0, 0, 0, pair_flops / PEAK, kv_s, 0, 0, kv_s, pair_flops, KV_TOKEN_BYTES, 0, 0, 0]])
    nothing = np.zeros(2)
    weights = np.full(len(rows), 2 * PARAMETERS)
    roofs = np.array([312e12, 2.039e12])
    times = PassTimes(
        *(rows_s, rows_s.copy(), nothing, mixers, 2 * PARAMETERS * rows, weights),
        *(nothing.copy(), nothing.copy(), roofs),
    )
    limits = Limits(blocks=BLOCKS, context_length=2 * LONGEST, max_sequences=SEQUENCES, max_tokens=BUDGET)
    arrival_s, prompt, output = workload(trace, count, rate)
    offsets = np.concatenate([[0], np.cumsum(prompt // 16)]) if keyed else None
    keys = np.arange(offsets[-1]) if keyed else ()  # numbered as those of a trace are
    requests = requests_of(arrival_s, prompt, output, keys=keys, key_offsets=offsets)
    first = time.perf_counter()
    simulate_replica(requests_of(arrival_s[:9], prompt[:9], output[:9]), limits, times)
    loaded_s = time.perf_counter() - first
    taken, busy, found = [], [], {}
    for _ in range(1 if count > 100_000 else 3):
        begun, cpu = time.perf_counter(), time.process_time()
        done = simulate_replica(requests, limits, times)
        moments = done.records.moments
        ttft, e2e = moments[:, FIRST_TOKEN_S] - arrival_s, moments[:, FINISHED_S] - arrival_s
        tokens = done.records.counts[:, PRODUCED]
        tpot = (e2e - ttft)[tokens > 1] / (tokens[tokens > 1] - 1)
        gaps, often = gaps_of(done.passes)
        order = np.argsort(gaps)
        at = np.searchsorted(np.cumsum(often[order]), 0.99 * often.sum())
        found = {
            "ttft_p99_s": float(np.percentile(ttft, 99)),
            "tpot_p99_s": float(np.percentile(tpot, 99)),
            "gap_p99_s": float(gaps[order][min(at, len(gaps) - 1)]),
            "passes": int(done.passes.counts[:, PASSES].sum()),
            "end_s": done.ended_s,
        }
        taken.append(time.perf_counter() - begun)
        busy.append(time.process_time() - cpu)
    return {"run_s": min(taken), "cpu_s": min(busy), "load_s": loaded_s, **found}


def sched_sim(trace: Path, count: int, rate: float) -> dict[str, float]:
    from sched_sim.core.event_engine import Simulator
    from sched_sim.core.request import Request
    from sched_sim.hardware.profile import HardwareProfile
    from sched_sim.schedulers.factory import create_scheduler

    hardware = HardwareProfile(
        name="A100",
        vram_gb=80.0,
        memory_bandwidth_gb_s=BANDWIDTH / 1e9,
        fp16_tflops=312.0,
        tensor_core_efficiency=0.7,
        kernel_launch_overhead_ms=1e3 * OVERHEAD_S,
        model_name="llama-3.1-8b",
        parameter_count_billions=PARAMETERS / 1e9,
        num_layers=LAYERS,
        hidden_size=4096,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
    )
    arrivals = zip(*(each.tolist() for each in workload(trace, count, rate)), strict=True)
    requests = [
        Request(request_id=str(i), arrived_at=moment, prompt_tokens=prompt, output_tokens=output)
        for i, (moment, prompt, output) in enumerate(arrivals)
    ]
    begun, cpu = time.perf_counter(), time.process_time()
    scheduler = create_scheduler("chunked", hardware, token_budget=BUDGET, max_batch_size=SEQUENCES)
    simulator = Simulator(hardware, scheduler)
    simulator.submit_workload(requests)
    metrics = simulator.run()
    return {
        "run_s": time.perf_counter() - begun,
        "cpu_s": time.process_time() - cpu,
        "ttft_p99_s": metrics.ttft_ms.p99 / 1e3,
        "tpot_p99_s": metrics.tpot_ms.p99 / 1e3,
        "passes": metrics.total_iterations,
        "end_s": metrics.simulation_duration_s,
    }


def vidur(checkout: Path, trace: Path, count: int, rate: float) -> float:
    """Seconds of the whole process: it reads a file of lengths, and draws its own Poisson arrivals."""
    _, prompt, output = workload(trace, count, rate)
    lengths = Path("vidur_lengths.csv").absolute()
    rows = [f"{p},{o}" for p, o in zip(prompt.tolist(), output.tolist(), strict=True)]
    lengths.write_text("\n".join(["num_prefill_tokens,num_decode_tokens", *rows]))
    options = {
        "replica_config_device": "a100",
        "replica_config_model_name": "meta-llama/Meta-Llama-3-8B",
        "cluster_config_num_replicas": 1,
        "request_generator_config_type": "synthetic",
        "synthetic_request_generator_config_num_requests": count,
        "length_generator_config_type": "trace",
        "trace_request_length_generator_config_max_tokens": 2 * LONGEST,
        "trace_request_length_generator_config_trace_file": lengths,
        "interval_generator_config_type": "poisson",
        "poisson_request_interval_generator_config_qps": rate,
        "replica_scheduler_config_type": "sarathi",
        "sarathi_scheduler_config_batch_size_cap": SEQUENCES,
        "sarathi_scheduler_config_chunk_size": BUDGET,
    }
    command = [os.environ.get("VIDUR_PYTHON", sys.executable), "-m", "vidur.main"]
    command += [each for name, value in options.items() for each in (f"--{name}", str(value))]
    begun = time.perf_counter()
    subprocess.run(command, cwd=checkout, check=True, env={**os.environ, "WANDB_MODE": "disabled"})
    lengths.unlink()
    return time.perf_counter() - begun


def child(python: str, kind: str, trace: Path, count: int, rate: float) -> None:
    begun = time.perf_counter()
    command = [python, __file__, "--trace", str(trace), "--child", kind, str(count), str(rate)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(answer.splitlines()[-1])
    whole = time.perf_counter() - begun
    by_clock, by_cpu = count / found["run_s"], count / found["cpu_s"]
    print(
        f"{kind:12} {count:>9,} at {rate:4.1f}/s  run {found['run_s']:7.3f} s, {by_clock:>8,.0f}/s"
        f" ({by_cpu:>8,.0f} a CPU second)  process {whole:6.2f} s {found['peak_mb']:5.0f} MB"
        f"  {found['passes']:>9,} passes  end {found['end_s']:.1f} s"
        f"  p99 TTFT {found['ttft_p99_s']:.3f} TPOT {found['tpot_p99_s']:.4f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trace", type=Path, required=True, help="Azure's columns")
    parser.add_argument("--sched-sim", help="Python of an environment that has it")
    parser.add_argument("--vidur", type=Path, help="its checkout")
    parser.add_argument("--long", action="store_true", help="also 10,000 to 1,000,000 requests, ours alone")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        kind, count, rate = asked.child[0], int(asked.child[1]), float(asked.child[2])
        if kind == "sched-sim":
            found = sched_sim(asked.trace, count, rate)
        else:
            found = ours(asked.trace, count, rate, kind == "ours, keyed")
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**found, "peak_mb": peak_mb}))
        return
    for count, rate in SIZES:
        child(sys.executable, "ours", asked.trace, count, rate)
        child(sys.executable, "ours, keyed", asked.trace, count, rate)  # a key of its own for each block
        if asked.sched_sim:
            child(asked.sched_sim, "sched-sim", asked.trace, count, rate)
        if asked.vidur:
            seconds = vidur(asked.vidur.absolute(), asked.trace.absolute(), count, rate)
            print(f"vidur        {count:>9,} {rate:5.1f}/s  process {seconds:.1f} s", flush=True)
    if asked.long:
        for count in (10_000, 100_000, 1_000_000):
            child(sys.executable, "ours", asked.trace, count, SIZES[0][1])


if __name__ == "__main__":
    main()
