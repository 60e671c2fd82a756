"""What bench/engine.py says to an engine's process, a line of JSON each way. Standard library only.

    {"load": DIR, "format": "bf16", "threads": 2} -> {"weight_bytes", "kv_item_bytes", "settings"}
    {"prefill": CONTEXT, "batch": B}              -> {"seconds"}    until every sequence has its first token
    {"decode": STEPS}                             -> {"seconds": [of each further token of all sequences]}
    {"end": true}                                 -> {}             forget the sequences

An error is answered as {"error": text}.
"""

import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

LONGEST = 2048  # context
ROOM = 64  # output tokens that a sequence may have
TOKENS = 151_000  # ids below are ordinary ones
BATCHES = {128: 16}  # sequences of a context at once, else 1


class Engine(Protocol):
    weight_bytes: int  # that a pass reads, as the format stores them
    kv_item_bytes: float
    settings: str  # what a reader of its figures must know

    def prefill(self, prompts: list[list[int]]) -> float: ...

    def decode(self, steps: int) -> list[float]: ...

    def end(self) -> None: ...


def serve(open_engine: Callable[[Path, str, int], Engine]) -> None:
    """Answer standard input's commands until it ends. Whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    draw, engines = random.Random(0), []
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line), open_engine, engines, draw)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)


def _answer(
    command: dict[str, Any],
    open_engine: Callable[[Path, str, int], Engine],
    engines: list[Engine],
    draw: random.Random,
) -> dict[str, Any]:
    if "load" in command:
        engine = open_engine(Path(command["load"]), command["format"], command["threads"])
        engines.append(engine)
        return {name: getattr(engine, name) for name in ("weight_bytes", "kv_item_bytes", "settings")}
    (engine,) = engines
    if "prefill" in command:  # new prompts each time: no prefix cache helps
        prompts = [draw.choices(range(TOKENS), k=command["prefill"]) for _ in range(command["batch"])]
        return {"seconds": engine.prefill(prompts)}
    if "decode" in command:
        return {"seconds": engine.decode(command["decode"])}
    engine.end()
    return {}
