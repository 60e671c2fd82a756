"""What the engine takes beside weights and KV pool, at most, from loading to serving."""

import json
import subprocess
import sys

import pytest

RUN = """
import json
from pathlib import Path
from twophase.cost.pass_ import Pass, Span
from twophase.engine.open import find_model, load_model

model = load_model(find_model("qwen3-0.6b", "random", "bf16", {weights!r}))
executor = model.executor(positions=1024, sequences=4, threads=2)
executor.warm_up()
executor.begin(0, [1] * 512)
executor.run(Pass((Span(0, 512, 0, tuple(range(33))),)))
for context in range(512, 516):
    executor.run(Pass((Span(0, 1, context, tuple(range(33))),)))
# not ru_maxrss: a child starts with its parent's
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
peak = 1024 * int(status["VmHWM"].split()[0])
print(json.dumps([peak, model.network.arena.nbytes, executor.pool.bytes]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("weights", ["bf16", "int4"])
def test_no_second_copy_of_the_weights_is_ever_held(weights: str) -> None:
    """Weights, pool and 300 MB: 1.2 GB of BF16 weights, or those rounded to 406 MB while they are read."""
    for _ in range(2):  # the first run may compile, which takes memory of its own
        ran = subprocess.run(
            [sys.executable, "-c", RUN.format(weights=weights)], capture_output=True, text=True, check=True
        )
    peak, held, pool = json.loads(ran.stdout)
    assert peak - held - pool < 300e6
    assert held == pytest.approx({"bf16": 1.192e9, "int4": 0.406e9}[weights], rel=0.01)
