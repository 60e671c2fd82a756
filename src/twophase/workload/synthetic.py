"""Requests made up: arrivals by a process, lengths drawn, shared prefixes, conversations of several turns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import Lengths
from twophase.workload.seeded import generator
from twophase.workload.workload import Ints, Streams, Workload


@dataclass(frozen=True, slots=True)
class Pairs:
    """Prompts and outputs of a trace, drawn together: long prompts keep their short answers."""

    prompt_tokens: Ints
    output_tokens: Ints


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to make up. Each turn's prompt is the whole conversation so far and its own tokens."""

    arrivals: Arrivals
    prompt: Lengths
    output: Lengths
    pairs: Pairs | None = None  # in place of prompt and output
    prefix_tokens: int = 0  # in front of each prompt's own
    prefixes: int = 1
    turns: int = 1
    think_s: float = 0.0  # from an answer's end to the next turn


def synthetic(recipe: Recipe, requests: int, seed: str) -> Workload:
    """So many requests, turns counted; the same for the same seed."""
    turns = recipe.turns
    conversations = -(-requests // turns)
    own, output = lengths(recipe, conversations * turns, seed)
    begins = recipe.arrivals.first(conversations, seed)
    if turns == 1 and not recipe.prefix_tokens:
        return Workload(begins, own, output)
    number = np.arange(conversations * turns)
    talk, turn = number // turns, number % turns
    said = np.cumsum((own + output).reshape(-1, turns), axis=1).ravel() - own - output
    before = said - said[turn == 0][talk]
    made = Workload(
        arrival_s=np.where(turn == 0, begins[talk], recipe.think_s),
        prompt_tokens=recipe.prefix_tokens + before + own,
        output_tokens=output,
        content=Streams(
            prefix=talk % recipe.prefixes if recipe.prefix_tokens else np.full(len(talk), -1),
            prefix_tokens=recipe.prefix_tokens,
            conversation=talk if turns > 1 else np.full(len(talk), -1),
        ),
        follows=np.where(turn == 0, -1, number - 1) if turns > 1 else None,
    )
    return made.first(requests)


def lengths(recipe: Recipe, count: int, seed: str) -> tuple[Ints, Ints]:
    if recipe.pairs is not None:
        rng = generator(seed, "pairs")
        drawn: NDArray[np.int64] = rng.integers(0, len(recipe.pairs.prompt_tokens), count)
        return recipe.pairs.prompt_tokens[drawn], recipe.pairs.output_tokens[drawn]
    return (
        recipe.prompt.draws(count, generator(seed, "prompts")),
        recipe.output.draws(count, generator(seed, "outputs")),
    )
