"""This engine beside its peers on one checkpoint, interleaved, with the machine's roofs beside every figure.

    bash bench/peers/install.sh DIR
    python bench/engine.py --venvs DIR [--peers a,b] [--formats bf16,int8,int4] [--rounds N] [--threads N]
                           [--json PATH] [--markdown PATH]

Each engine is a process of its own that loads its weights once and is stopped (SIGSTOP) while another one is
measured: no idle thread spins beside it. What can't be run is skipped with a word. --markdown writes the
tables between the markers of that file.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from account import PARAMETERS
from table import CELLS, OURS, Cell, Figure, Phase, markdown, put_between_markers

from twophase.hardware.probe import cpu_name, matmul_rate, read_rate

HERE = Path(__file__).parent / "peers"
# engine: (its environment under --venvs, None for the one that runs this; its runner)
ENGINES = {
    OURS: (None, "twophase_engine.py"),
    "openvino": ("openvino", "openvino_peer.py"),
    "vllm": ("vllm", "vllm_peer.py"),
    "llama.cpp": ("llamacpp", "llamacpp_peer.py"),
    "transformers": ("transformers", "transformers_peer.py"),
}
Shape = tuple[int, int]
SHAPES: tuple[Shape, ...] = tuple(dict.fromkeys((cell.batch, cell.context) for cell in CELLS))
STEPS = 16  # of decoding; a figure is their median
WARM_STEPS = 2
PROBE_S = 0.05


class EngineError(Exception):
    """An engine that does not do what it was asked, in one line."""


class Runner:
    """An engine's process, stopped unless it is asked something."""

    def __init__(self, name: str, venvs: Path, threads: int) -> None:
        venv, script = ENGINES[name]
        python = Path(sys.executable) if venv is None else venvs / venv / "bin" / "python"
        if not python.exists():
            raise EngineError("not installed")
        self.name, self.log = name, venvs / f"{name}.log"
        limits = {each: str(threads) for each in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [str(python), str(HERE / script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env=os.environ | limits | {"HF_HUB_OFFLINE": "1"},
            )
        self._signal(signal.SIGSTOP)

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self._signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise EngineError(f"its process ended: see {self.log}")
        self._signal(signal.SIGSTOP)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer

    def close(self) -> None:
        if self.process.poll() is None:
            self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, kind: signal.Signals) -> None:
        os.killpg(self.process.pid, kind)


class Roofs:
    """What this machine multiplies in registers, and reads of a buffer as large as the weights."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.buffer = np.ones(PARAMETERS, np.uint16)
        self.probe()  # compiles

    def probe(self) -> tuple[float, float]:
        """(FLOP/s, bytes/s)"""
        return (
            matmul_rate("bf16", self.threads, PROBE_S),
            read_rate(self.buffer, self.threads, PROBE_S),
        )


def measure(runner: Runner, about: dict[str, Any], shape: Shape, roofs: Roofs) -> Iterator[Figure]:
    """One shape once, both its phases. `about`: what the engine said of itself on loading."""
    batch, context = shape
    before = roofs.probe()
    asked: dict[Phase, dict[str, int]] = {
        "prefill": {"prefill": context, "batch": batch},
        "decode": {"decode": STEPS},
    }
    for phase, command in asked.items():
        seconds = float(np.median(runner.ask(**command)["seconds"]))
        after = roofs.probe()
        best = [max(pair) for pair in zip(before, after, strict=True)]
        cell = Cell(phase, batch, context)
        if cell in CELLS:
            cost = cell.cost(about["weight_bytes"], about["kv_item_bytes"])
            yield Figure(cell, seconds, *cost, *best)
        before = after
    runner.ask(end=True)


def start(name: str, weights: str, venvs: Path, threads: int) -> tuple[Runner, dict[str, Any]]:
    """An engine with its weights loaded and every shape run once."""
    runner = Runner(name, venvs, threads)
    try:
        about = runner.ask(load=str(venvs / "models"), format=weights, threads=threads)
        for batch, context in SHAPES:
            runner.ask(prefill=context, batch=batch)
            runner.ask(decode=WARM_STEPS)
            runner.ask(end=True)
    except BaseException:
        runner.close()
        raise
    return runner, about


@contextmanager
def started(
    names: list[str], weights: str, venvs: Path, threads: int
) -> Iterator[dict[str, tuple[Runner, dict[str, Any]]]]:
    engines = {}
    try:
        for name in names:
            began = time.perf_counter()
            try:
                engines[name] = start(name, weights, venvs, threads)
                print(f"{weights} {name}: ready after {time.perf_counter() - began:.0f} s", flush=True)
            except EngineError as error:
                print(f"{weights} {name}: skipped, {error}", flush=True)
        yield engines
    finally:
        for runner, _ in engines.values():
            runner.close()


def compare(
    names: list[str], weights: str, venvs: Path, threads: int, rounds: int, roofs: Roofs
) -> dict[str, Any]:
    """All engines in one format: by engine, what it said of itself and its figures, round by round."""
    with started(names, weights, venvs, threads) as engines:
        figures: dict[str, list[Figure]] = {name: [] for name in engines}
        for turn in range(rounds):
            for shape in SHAPES:
                for name, (runner, about) in list(engines.items()):
                    try:
                        for figure in measure(runner, about, shape, roofs):
                            figures[name].append(figure)
                            print(f"{turn + 1}/{rounds} {weights} {name:13}{figure}", flush=True)
                    except EngineError as error:
                        print(f"{weights} {name}: dropped at {shape}, {error}", flush=True)
                        engines.pop(name)[0].close()
        return {
            name: about | {"figures": figures[name], "engine": name, "format": weights}
            for name, (_, about) in engines.items()
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--venvs", type=Path, required=True, help="where bench/peers/install.sh installed them"
    )
    parser.add_argument("--peers", default=",".join(name for name in ENGINES if name != OURS))
    parser.add_argument("--formats", default="bf16,int8,int4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    chosen = parser.parse_args()
    names = [OURS, *filter(None, chosen.peers.split(","))]
    if unknown := set(names) - set(ENGINES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    if not (chosen.venvs / "models" / "checkpoint").exists():
        parser.error(f"{chosen.venvs / 'models' / 'checkpoint'} is missing: run bench/peers/install.sh first")
    roofs = Roofs(chosen.threads)
    machine = f"{cpu_name()}, {chosen.threads} threads"
    results = {
        weights: compare(names, weights, chosen.venvs, chosen.threads, chosen.rounds, roofs)
        for weights in chosen.formats.split(",")
    }
    tables = markdown(results, machine, chosen.rounds)
    print(tables)
    if chosen.json:
        plain = {weights: [_plain(each) for each in engines.values()] for weights, engines in results.items()}
        chosen.json.write_text(json.dumps({"machine": machine, "results": plain}, indent=1))
    if chosen.markdown:
        chosen.markdown.write_text(put_between_markers(chosen.markdown.read_text(), tables))


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    return result | {"figures": [figure.plain() for figure in result["figures"]]}


if __name__ == "__main__":
    main()
