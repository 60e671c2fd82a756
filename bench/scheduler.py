"""What deciding costs: the scheduler's share of a pass with 64 sequences running, on the real engine.

python bench/scheduler.py [--model qwen3-0.6b] [--running 64]
"""

import argparse
import time
from statistics import median

import numpy as np

from twophase.engine.open import find_model, load_model
from twophase.scheduler.request import Limits, Request
from twophase.scheduler.scheduler import Scheduler

PROMPT, STEPS = 16, 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen3-0.6b")
    parser.add_argument("--running", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    model = load_model(find_model(asked.model, "random", "bf16"))
    longest = PROMPT + STEPS + 8
    executor = model.executor(positions=longest, sequences=asked.running, threads=asked.threads)
    executor.warm_up()
    limits = Limits(
        blocks=executor.pool.blocks,
        context_length=longest,
        max_sequences=asked.running,
        max_tokens=asked.running * PROMPT,
    )
    scheduler = Scheduler(limits)
    rng = np.random.default_rng(0)
    for i in range(asked.running):
        executor.begin(i, rng.integers(0, model.spec.vocab_size, PROMPT).tolist())
        scheduler.add(Request(i, PROMPT, STEPS + 4, block_keys=executor.prompt_keys(i)))
    deciding, running = [], []
    for _ in range(STEPS):
        started = time.perf_counter()
        pass_ = scheduler.schedule()
        planned = time.perf_counter()
        assert pass_ is not None
        outcome = executor.run(pass_)
        ran = time.perf_counter()
        scheduler.commit(pass_, outcome)
        if pass_.rows == asked.running:
            deciding.append(planned - started + time.perf_counter() - ran)
            running.append(ran - planned)
    share = median(each / ran for each, ran in zip(deciding, running, strict=True))
    whole = f"running {1e3 * median(running):.0f} ms"
    print(f"{asked.running} running: deciding {1e6 * median(deciding):.0f} µs, {whole}")
    print(f"share of a pass: {100 * share:.2f} %")


if __name__ == "__main__":
    main()
