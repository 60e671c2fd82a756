"""A made-up server whose two laws the test puts in, on a clock of its own: no request is really sent."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from synthetic_replies import reply

from twophase.meter.curves import Ask
from twophase.meter.records import Reply, StreamEvent


@dataclass
class KnownEngine:
    """Prefills one prompt after the other; sequences that have their first token decode together.

    While a prompt is prefilled the others wait, as without chunks.
    """

    ttft: tuple[float, float, float] = (25e-3, 0.1e-3, 1.5e-9)
    itl: tuple[float, float, float] = (8e-3, 0.2e-3, 0.5e-6)
    floor_s: float = 0.0
    noise: float = 0.02
    cached: float | None = 0.0  # share of each prompt
    window: int = 1 << 20
    template: int = 11
    now: float = 100.0
    asked: list[int] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def clock(self) -> float:
        return self.now

    def measure(self, asks: Sequence[Ask], concurrency: int) -> list[Reply]:
        assert len(asks) <= concurrency
        sent, first, made = self.now, [], []
        self.asked += [each.prompt_tokens for each in asks]
        for each in asks:
            n = each.prompt_tokens + self.template
            a, b, c = self.ttft
            self.now += max(self.floor_s, a + b * n + c * n * n) * self.wobble()
            first.append(self.now)
        context = asks[0].prompt_tokens + self.template
        steps = asks[0].output_tokens - 1
        a, b, c = self.itl
        times = [self.now]
        for step in range(steps):
            grown = context + step + 1.5  # tokens in the cache of that pass
            self.now += (a + b * len(asks) + c * len(asks) * grown) * self.wobble()
            times.append(self.now)
        for at, (each, first_s) in enumerate(zip(asks, first, strict=True)):
            at_s = [first_s, *times[1:]]
            n = each.prompt_tokens + self.template
            changed: dict[str, Any] = {
                "point": each.point,
                "prompt_tokens": n,
                "cached_tokens": None if self.cached is None else round(self.cached * n),
                "output_tokens": float(len(at_s)),
                "first_event_s": first_s,
                "first_token_s": first_s,
                "first_answer_s": first_s,
                "last_token_s": at_s[-1],
                "closed_s": at_s[-1],
                "first_tokens": 1.0,
                "events": tuple(StreamEvent(t, "content", 1.0) for t in at_s),
            }
            if n + each.output_tokens > self.window:
                changed |= {"outcome": "failed", "reason": "context length exceeded", "events": ()}
                changed |= {"first_token_s": None, "last_token_s": None}
            made.append(reply(at, sent=sent, **changed))
        return made

    def wobble(self) -> float:
        return 1 + self.noise * self.rng.gauss(0, 1)
