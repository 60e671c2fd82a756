"""This meter beside its peers against a server whose times are known (bench/known_server.py).

    python bench/meter.py [--streams 1,16,64,256] [--venvs DIR] [--peers guidellm,aiperf] [--tokenizer DIR]

Each meter is told to keep so many streams of 64 tokens going, 10 requests each. An error is what it reports
over what the server did to the same requests; the rate is the server's count while all streams were going.
A peer's command is looked for in DIR/<peer>/bin; peers count tokens with a local tokenizer, given by its
folder. Options are those of guidellm 0.6 and aiperf 0.13: of others, what they say to them is shown.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from known_server import ITL_S, TTFT_S

OUTPUT_TOKENS = 64
PROMPT_TOKENS = 128
ROUNDS = 10  # requests a stream
REQUEST_S = TTFT_S + ITL_S * (OUTPUT_TOKENS - 1)
SAMPLE_S = 0.25
Truth = list[tuple[float, float, float]]


class MeterError(Exception):
    """A meter that could not be run, in one line."""


@dataclass(frozen=True, slots=True)
class Report:
    """TTFT as a meter reports it, in seconds."""

    mean_s: float
    p99_s: float
    stated_error_s: float | None = None


@dataclass(frozen=True, slots=True)
class Meter:
    command: Callable[[Path, str, int, Path, str], list[object]]  # program, URL, streams, folder, tokenizer
    read: Callable[[Path], Report]


def our_command(program: Path, url: str, streams: int, folder: Path, tokenizer: str) -> list[object]:
    main = "from twophase.cli import main; main()"
    load = ["--concurrency", streams, "--requests", ROUNDS * streams]
    sizes = ["--prompt-tokens", PROMPT_TOKENS, "--output-tokens", OUTPUT_TOKENS]
    return [sys.executable, "-c", main, "bench", url, *load, *sizes, "--json", "--out", folder / "run"]


def our_report(folder: Path) -> Report:
    said = json.loads((folder / "out").read_text())
    error = said.get("meter_error_s")
    stated = error.get("ttft_p99_s") if isinstance(error, dict) else error
    return Report(said["ttft_s"]["mean"], said["ttft_s"]["p99"], stated)


def guidellm_command(program: Path, url: str, streams: int, folder: Path, tokenizer: str) -> list[object]:
    data = f"prompt_tokens={PROMPT_TOKENS},output_tokens={OUTPUT_TOKENS}"
    load = ["--profile", "concurrent", "--rate", streams, "--max-requests", ROUNDS * streams]
    where = ["--processor", tokenizer, "--output-path", folder / "guidellm.json"]
    return [program, "benchmark", "--target", url, *load, "--data", data, *where]


def guidellm_report(folder: Path) -> Report:
    [done] = json.loads((folder / "guidellm.json").read_text())["benchmarks"]
    ttft = done["metrics"]["time_to_first_token_ms"]["successful"]
    return Report(ttft["mean"] / 1e3, ttft["percentiles"]["p99"] / 1e3)


def aiperf_command(program: Path, url: str, streams: int, folder: Path, tokenizer: str) -> list[object]:
    load = ["--concurrency", streams, "--request-count", ROUNDS * streams]
    sizes = ["--synthetic-input-tokens-mean", PROMPT_TOKENS, "--output-tokens-mean", OUTPUT_TOKENS]
    where = ["--tokenizer", tokenizer, "--output-artifact-dir", folder, "--ui", "none"]
    return [
        program,
        "profile",
        "-m",
        "known",
        "--url",
        url,
        "--endpoint-type",
        "chat",
        "--streaming",
        *load,
        *sizes,
        *where,
    ]


def aiperf_report(folder: Path) -> Report:
    said = json.loads(next(folder.rglob("profile_export_aiperf.json")).read_text())["time_to_first_token"]
    return Report(said["avg"] / 1e3, said["p99"] / 1e3)


METERS = {
    "twophase": Meter(our_command, our_report),
    "guidellm": Meter(guidellm_command, guidellm_report),
    "aiperf": Meter(aiperf_command, aiperf_report),
}


@dataclass(frozen=True, slots=True)
class Usage:
    wall_s: float
    cores: float
    peak_bytes: int


def run_meter(command: list[object], folder: Path, timeout_s: float) -> Usage:
    """Run it to its end, its whole family of processes watched."""
    began = time.perf_counter()
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [str(word) for word in command], stdout=out, stderr=err, stdin=subprocess.DEVNULL
        )
    peak = 0
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(SAMPLE_S):
            peak = max(peak, family_bytes(process.pid))
            if time.perf_counter() - began > timeout_s:
                process.kill()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    _, status, used = os.wait4(process.pid, 0)
    over.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - began
    if process.returncode:
        lines = (folder / "err").read_text(errors="replace").strip().splitlines()
        raise MeterError(lines[-1] if lines else f"it ended with status {process.returncode}")
    return Usage(wall_s, (used.ru_utime + used.ru_stime) / wall_s, peak)


def family_bytes(pid: int) -> int:
    """Resident memory of a process and all below it; what several of them share counts for each."""
    total = 0
    try:
        total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(family_bytes(int(child)) for child in (task / "children").read_text().split())
    except OSError:  # gone meanwhile
        pass
    return total


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def measured_part(truth: Truth, streams: int) -> Truth:
    """The last requests: what came before them were a meter's probes and its warm-up."""
    return sorted(truth)[-ROUNDS * streams :]


def rate_of(truth: Truth, streams: int) -> float:
    """Requests per second, by Little's law over the time in which nearly all streams were going."""
    edges = sorted([(read_s, 1) for read_s, _, _ in truth] + [(last_s, -1) for _, _, last_s in truth])
    full_s = [read_s for read_s, _, _ in sorted(truth)][streams - 1]
    last_s = max(read_s for read_s, _, _ in truth)
    going, area, before = 0, 0.0, full_s
    for at_s, step in edges:
        if full_s <= at_s <= last_s:
            area += going * (at_s - before)
            before = at_s
        going += step
    return area / (last_s - full_s) / mean(last_s - read_s for read_s, _, last_s in truth)


def line(name: str, streams: int, report: Report, truth: Truth, usage: Usage) -> str:
    part = measured_part(truth, streams)
    ttfts_s = [first_s - read_s for read_s, first_s, _ in part]
    true_mean_s, true_p99_s = mean(ttfts_s), percentile(ttfts_s, 0.99)
    rate, ideal = rate_of(part, streams), streams / REQUEST_S
    cells = [
        f"{name} @ {streams}",
        f"{report.mean_s * 1e3:.1f} / {report.p99_s * 1e3:.1f}",
        f"{true_mean_s * 1e3:.1f} / {true_p99_s * 1e3:.1f}",
        f"{report.mean_s / true_mean_s - 1:+.1%} ({report.p99_s / true_p99_s - 1:+.1%})",
        "-" if report.stated_error_s is None else f"{report.stated_error_s * 1e3:.2f} ms",
        f"{rate:.1f} of {ideal:.1f} ({rate / ideal:.1%})",
        f"{usage.cores:.2f}",
        f"{usage.peak_bytes / 1e6:.0f}",
        f"{usage.wall_s:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


HEADINGS = (
    "meter @ streams",
    "TTFT mean / p99, ms",
    "the server's own",
    "error of mean (p99)",
    "error it states",
    "requests/s of ideal",
    "cores",
    "peak MB",
    "whole run, s",
)


def known_server() -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).parent / "known_server.py"
    process = subprocess.Popen([sys.executable, str(script), str(port)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process, f"http://127.0.0.1:{port}"


def truth_of(url: str) -> Truth:
    with urllib.request.urlopen(f"{url}/truth") as answer:
        return [(read_s, first_s, last_s) for read_s, first_s, last_s in json.load(answer)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", default="1,16,64,256")
    parser.add_argument("--peers", default="guidellm,aiperf")
    parser.add_argument("--venvs", type=Path, default=Path("venvs"))
    parser.add_argument("--tokenizer", default="", help="a local tokenizer's folder, for the peers")
    arguments = parser.parse_args()
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + "---|" * len(HEADINGS), flush=True)
    for streams in map(int, arguments.streams.split(",")):
        for name in ("twophase", *filter(None, arguments.peers.split(","))):
            program = arguments.venvs / name / "bin" / name
            if name != "twophase" and not program.exists():
                print(f"{name} is not in {program.parent}", file=sys.stderr)
                continue
            server, url = known_server()
            try:
                with tempfile.TemporaryDirectory() as folder:
                    where = Path(folder)
                    command = METERS[name].command(program, url, streams, where, arguments.tokenizer)
                    usage = run_meter(command, where, 60 + 10 * ROUNDS * REQUEST_S)
                    print(line(name, streams, METERS[name].read(where), truth_of(url), usage), flush=True)
            except (MeterError, OSError, LookupError, ValueError, StopIteration) as error:
                print(f"{name} @ {streams}: {error}", file=sys.stderr)
            finally:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    main()
