"""Prompts as long as a trace's."""

from dataclasses import dataclass
from random import Random

from twophase.meter.calibration import Calibration
from twophase.meter.prompts import Talk, Turn, stock_of
from twophase.meter.words import random_words, unique_text
from twophase.workload.workload import Blocks, Workload


@dataclass(frozen=True, slots=True)
class Replayed:
    """Unique ones, or made of its blocks where it names them: equal ids, equal text."""

    seed: str
    calibration: Calibration
    trace: Workload

    def __call__(self, number: int) -> Talk:
        at = number % len(self.trace)
        prompt_tokens, output_tokens = int(self.trace.prompt_tokens[at]), int(self.trace.output_tokens[at])
        rng = Random(f"{self.seed}/{number}")
        words = self.calibration.words(prompt_tokens)
        content = self.trace.content
        if isinstance(content, Blocks) and content.starts[at] < content.starts[at + 1]:
            text = self.blocks_text(content, at, words)
        else:
            stock, start = stock_of(self.seed)
            text = unique_text(rng, stock, start + number, words)
        return Talk((Turn(text, prompt_tokens, output_tokens),))

    def blocks_text(self, content: Blocks, at: int, words: int) -> str:
        block_words = max(round(content.tokens / self.calibration.tokens_per_word), 1)
        parts: list[str] = []
        for block in content.ids[content.starts[at] : content.starts[at + 1]].tolist():
            parts += random_words(Random(f"{self.seed}/block/{block}"), block_words)
        while len(parts) < words:
            parts.append(parts[-1])
        return " ".join(parts[:words])
