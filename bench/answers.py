"""How long whole processes take to answer, as a user waits for them.

    python bench/answers.py [RUNS]

Medians, beside what starting Python with NumPy and with Typer takes in the same minutes. Bytecode is kept, as
it is where a package is installed.
"""

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

VERBS = {
    "phases": ["phases"],
    "phases of a quantised MoE": ["phases", "deepseek-v3", "--gpu", "h200", "--tp", "8", "--ep", "8"],
    "model": ["model", "qwen3-next-80b-a3b"],
    "fit": ["fit", "llama-3.3-70b", "--weights", "fp8", "--tp", "2"],
    "hardware": ["hardware"],
}
BESIDE = {"python, numpy": "import numpy", "python, typer": "import typer"}


def seconds(code: str, arguments: list[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**kept, "PYTHONPYCACHEPREFIX": folder}
        asked = {name: (code, []) for name, code in BESIDE.items()}
        asked |= {name: ("from twophase.cli import main; main()", verb) for name, verb in VERBS.items()}
        took: dict[str, list[float]] = {name: [] for name in asked}
        for run in range(runs + 1):  # the first one compiles
            for name, (code, arguments) in asked.items():
                spent = seconds(code, arguments, environment)
                took[name] += [spent] if run else []
    for name, each in took.items():
        print(f"{name:28}{median(each):7.3f} s   best {min(each):.3f} s")


if __name__ == "__main__":
    main()
