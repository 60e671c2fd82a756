"""What a prefix cache could find of a trace's blocks, whatever the engine: a replay of its ids alone."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from twophase.workload.workload import Blocks, Workload

DEFINITION = (
    "blocks of each prompt's longest cached prefix / all blocks, partial last ones too, in order of arrival"
)


@dataclass(frozen=True, slots=True)
class Reuse:
    """By DEFINITION. Blocks are the trace's."""

    found: int
    blocks: int
    found_tokens: int
    tokens: int

    @property
    def share(self) -> float:
        return self.found / self.blocks if self.blocks else 0.0

    @property
    def token_share(self) -> float:
        return self.found_tokens / self.tokens if self.tokens else 0.0


def reuse_of(workload: Workload, capacity: int | None = None) -> Reuse | None:
    """With room for so many blocks, the least recently used given up first; None: room for all.

    None where the workload doesn't say what its prompts consist of.
    """
    content = workload.content
    if not isinstance(content, Blocks):
        return None
    cached: OrderedDict[int, None] = OrderedDict()
    found = found_tokens = 0
    ids, starts = content.ids.tolist(), content.starts.tolist()
    for begin, end, tokens in zip(starts, starts[1:], workload.prompt_tokens.tolist(), strict=False):
        mine = ids[begin:end]
        hits = next((at for at, each in enumerate(mine) if each not in cached), len(mine))
        found += hits
        found_tokens += min(hits * content.tokens, tokens)
        for each in mine:
            cached[each] = None
            cached.move_to_end(each)
        while capacity is not None and len(cached) > capacity:
            cached.popitem(last=False)
    return Reuse(found, len(ids), found_tokens, int(np.sum(workload.prompt_tokens)))
