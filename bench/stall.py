"""How long those who decode wait while long prompts arrive: policy by policy, on the real engine.

    python bench/stall.py [--model qwen3-0.6b] [--prompt 2048] [--png docs/stall.png]

Four users decode; two long prompts come, one after the other. Every gap between two tokens of those users
comes from the engine's own records. A chunked prefill makes nobody wait longer than its largest pass, which
the budget bounds; whole prompts first make everybody wait for the whole prompt.
"""

import argparse
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import vl_convert
from table import put_between_markers

from twophase.cost.price import price_of
from twophase.engine.executor import Executor
from twophase.engine.open import find_model, load_model
from twophase.scheduler.clock import RealClock
from twophase.scheduler.drive import drive
from twophase.scheduler.log import Log
from twophase.scheduler.request import Limits, Request
from twophase.scheduler.scheduler import Scheduler

USERS, USER_PROMPT, LATE = 4, 32, 2
POLICIES = (("decode-first", 64), ("decode-first", 256), ("prefill-first", None), ("static", None))


@dataclass(frozen=True)
class Run:
    name: str
    gaps: list[tuple[float, float]]  # (when it ended, seconds), of all users
    longest_pass_s: float
    long_ttft_s: float  # of the first long prompt

    @property
    def worst_s(self) -> float:
        return max(gap for _, gap in self.gaps)


def run(executor: Executor, log: Log, policy: str, budget: int | None, prompt: int, output: int) -> Run:
    longest = prompt + output + USER_PROMPT
    limits = Limits(
        blocks=executor.pool.blocks, context_length=longest, max_tokens=budget, prefix_cache=False
    )
    rng = np.random.default_rng(0)
    arrivals = [(0.0, Request(i, USER_PROMPT, output)) for i in range(USERS)]
    arrivals += [(2.0 * (1 + i), Request(USERS + i, prompt, 2)) for i in range(LATE)]
    for _, request in arrivals:
        executor.begin(
            request.id, rng.integers(0, executor.network.spec.vocab_size, request.prompt_tokens).tolist()
        )
    for _ in drive(arrivals, Scheduler(limits, policy), executor, RealClock(), log):
        pass
    for _, request in arrivals:
        executor.end(request.id)
    users, late = log.requests[:USERS], log.requests[USERS]
    gaps = [(end, end - start) for each in users for start, end in pairwise(each.token_s)]
    name = policy if budget is None else f"{policy}, budget {budget}"
    assert late.ttft_s is not None
    return Run(name, sorted(gaps), max(each.seconds for each in log.passes), late.ttft_s)


def chart(runs: list[Run]) -> dict[str, Any]:
    values = [{"run": each.name, "t": t, "ms": 1e3 * gap} for each in runs for t, gap in each.gaps]
    point = {"type": "point", "filled": True, "size": 14, "opacity": 0.6, "color": "#b4552d"}
    axis = {
        "field": "ms",
        "type": "quantitative",
        "scale": {"type": "log"},
        "title": "gap between tokens (ms)",
    }
    return {
        "data": {"values": values},
        "facet": {"column": {"field": "run", "sort": [each.name for each in runs], "title": None}},
        "spec": {
            "width": 190,
            "height": 190,
            "mark": point,
            "encoding": {"x": {"field": "t", "type": "quantitative", "title": "time (s)"}, "y": axis},
        },
        "background": "white",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen3-0.6b")
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--output", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--png", type=Path)
    parser.add_argument("--markdown", type=Path, help="a file with markers, to write the table into")
    asked = parser.parse_args()
    model = load_model(find_model(asked.model, "random", "bf16"))
    longest = asked.prompt + asked.output + USER_PROMPT
    executor = model.executor(positions=longest, sequences=USERS + LATE, threads=asked.threads)
    executor.warm_up()
    price = price_of(model.deployment())
    runs = [
        run(executor, Log(price), policy, budget, asked.prompt, asked.output)
        for policy, budget in [("decode-first", 64), *POLICIES]  # the first run warms up
    ][1:]
    lines = [
        f"| policy | worst gap (ms) | longest pass (ms) | TTFT of a {asked.prompt}-token prompt (s) |",
        "|---|---:|---:|---:|",
    ]
    for each in runs:
        worst, longest_ms = 1e3 * each.worst_s, 1e3 * each.longest_pass_s
        lines.append(f"| {each.name} | {worst:,.0f} | {longest_ms:,.0f} | {each.long_ttft_s:.1f} |")
    print("\n".join(lines))
    if asked.markdown:
        text = put_between_markers(asked.markdown.read_text(), "\n".join(lines) + "\n", "bench/stall.py")
        asked.markdown.write_text(text)
    if asked.png:
        asked.png.write_bytes(vl_convert.vegalite_to_png(chart(runs), scale=2))


if __name__ == "__main__":
    main()
