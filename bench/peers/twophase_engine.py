"""This project's engine, through its scheduler, as it serves."""

import time
from collections.abc import Iterator
from pathlib import Path

from protocol import LONGEST, ROOM, serve

from twophase.cost.price import price_of
from twophase.engine.open import find_model, load_model
from twophase.scheduler.clock import RealClock
from twophase.scheduler.drive import Progress, drive
from twophase.scheduler.log import Log
from twophase.scheduler.request import Limits, Request
from twophase.scheduler.scheduler import Scheduler


class Twophase:
    def __init__(self, models: Path, weights: str, threads: int) -> None:
        model = load_model(find_model(str(models / "checkpoint"), "real", "bf16", weights=weights))
        self.weight_bytes = model.network.arena.nbytes
        self.kv_item_bytes = 2.0
        self.settings = " ".join(model.notes)
        self.executor = model.executor(positions=LONGEST + ROOM, sequences=2, threads=threads)
        self.executor.warm_up()
        self.price = price_of(model.deployment())
        self.passes: Iterator[Progress] = iter(())
        self.batch = 0

    def prefill(self, prompts: list[list[int]]) -> float:
        self.batch = len(prompts)
        for sequence, ids in enumerate(prompts):
            self.executor.begin(sequence, ids)
        scheduler = Scheduler(Limits(blocks=self.executor.pool.blocks, context_length=LONGEST + ROOM))
        requests = [(0.0, Request(sequence, len(ids), ROOM)) for sequence, ids in enumerate(prompts)]
        started, waiting = time.perf_counter(), set(range(self.batch))
        self.passes = drive(requests, scheduler, self.executor, RealClock(), Log(self.price))
        while waiting:
            waiting -= next(self.passes).tokens.keys()
        return time.perf_counter() - started

    def decode(self, steps: int) -> list[float]:
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            progress = next(self.passes)
            seconds.append(time.perf_counter() - started)
            assert len(progress.tokens) == self.batch
        return seconds

    def end(self) -> None:
        self.passes.close()  # type: ignore[attr-defined]
        for sequence in range(self.batch):
            self.executor.end(sequence)


if __name__ == "__main__":
    serve(Twophase)
