"""From words to the server's tokens, by what two probes of it cost: no tokenizer is ever downloaded."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Calibration:
    """prompt tokens = template_tokens + tokens_per_word * words."""

    tokens_per_word: float = 1.0
    template_tokens: float = 0.0  # of the chat template, before any word
    source: str = "none"  # usage, tokenizer, none

    def words(self, tokens: int) -> int:
        """How many words make a prompt of so many tokens, template included: one at least."""
        return max(round((tokens - self.template_tokens) / self.tokens_per_word), 1)

    def tokens(self, words: int) -> int:
        return max(round(self.template_tokens + self.tokens_per_word * words), 1)


def calibrate(words: tuple[int, int], tokens: tuple[int | None, int | None]) -> Calibration:
    """A line through two probes; one token a word where the server counted none, or can't have counted."""
    if tokens[0] is None or tokens[1] is None or words[1] <= words[0]:
        return Calibration()
    slope = (tokens[1] - tokens[0]) / (words[1] - words[0])
    offset = tokens[0] - slope * words[0]
    if not 0.2 <= slope <= 20:  # a server that counts requests, or something else than tokens
        return Calibration()
    return Calibration(slope, max(offset, 0.0), "usage")


def refined(known: Calibration, words: int, tokens: int, prompts: int) -> Calibration:
    """By more prompts than two: their words and the server's count of their tokens, summed."""
    slope = (tokens - prompts * known.template_tokens) / words if words else 0.0
    if known.source != "usage" or not 0.5 <= slope / known.tokens_per_word <= 2:
        return known
    return replace(known, tokens_per_word=slope)


def notes_of(calibration: Calibration) -> list[str]:
    if calibration.source == "none":
        return ["the server does not count prompt tokens: lengths of prompts are words, about a token each"]
    return []
