"""What calls say: a talk for each number, the same for the same seed wherever it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from twophase.meter.calibration import Calibration
from twophase.meter.dialect import Message
from twophase.meter.words import WORDS, random_words, unique_text
from twophase.workload.lengths import Lengths

STOCK_WORDS = 8192  # prompts are cut from these at random places


@dataclass(frozen=True, slots=True)
class Turn:
    """One user turn, and how much is asked for in answer."""

    text: str
    prompt_tokens: int  # of the whole prompt with all before it; about, for later turns
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation of one turn or more, perhaps behind a prefix that others share."""

    turns: tuple[Turn, ...]
    before: tuple[Message, ...] = ()


def texts_of(talk: Talk) -> list[str]:
    """What its first call sends."""
    return [*(text for _, text in talk.before), talk.turns[0].text]


Recipe = Callable[[int], Talk]  # of a call's number, or of a session's where talks have several turns


@lru_cache(maxsize=4)
def stock_of(seed: str) -> tuple[list[str], int]:
    """Words to cut prompts from, and the place in the vocabulary where the first prompt begins."""
    rng = Random(f"{seed}/stock")
    return random_words(rng, STOCK_WORDS), rng.randrange(len(WORDS))


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Random words of drawn lengths; unique from the first on, or behind one of a few shared prefixes."""

    seed: str
    calibration: Calibration
    prompt: Lengths
    output: Lengths
    prefix_tokens: int = 0
    prefixes: int = 1
    turns: int = 1

    def __call__(self, number: int) -> Talk:
        stock, start = stock_of(self.seed)
        rng = Random(f"{self.seed}/{number}")
        before: tuple[Message, ...] = ()
        behind = 0
        if self.prefix_tokens:
            which = number % self.prefixes
            text = unique_text(
                Random(f"{self.seed}/prefix/{which}"),
                stock,
                start + which,
                self.calibration.words(self.prefix_tokens),
            )
            before = (("system", text),)
            behind = self.prefix_tokens
        turns = []
        for turn in range(self.turns):
            asked, answer = self.prompt.draw(rng), self.output.draw(rng)
            words = (
                self.calibration.words(asked)
                if not behind
                else round(asked / self.calibration.tokens_per_word)
            )
            text = unique_text(rng, stock, start + number + turn, max(words, 1))
            turns.append(Turn(text, behind + asked, answer))
            behind += asked + answer
        return Talk(tuple(turns), before)


@dataclass(frozen=True, slots=True)
class Listed:
    """Talks as they stand in a file, again from its beginning when it ends."""

    talks: tuple[Talk, ...]

    def __call__(self, number: int) -> Talk:
        return self.talks[number % len(self.talks)]
