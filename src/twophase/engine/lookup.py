"""Drafts by lookup: what followed the last few tokens when they came before, in prompt or output."""

from collections.abc import Sequence


class NgramDrafts:
    """Index of one sequence's n-grams, from `longest` tokens to `shortest`; about 100 bytes for each.

    Prompt lookup decoding (Saxena 2023), with the latest occurrence rather than the first.
    """

    def __init__(self, longest: int = 3, shortest: int = 2) -> None:
        self.sizes = range(longest, shortest - 1, -1)
        self._following: dict[tuple[int, ...], int] = {}  # where the token after an n-gram stands
        self._indexed = 0

    def propose(self, tokens: Sequence[int], most: int) -> list[int]:
        """At most so many tokens that may come next; none where the last ones are new.

        tokens: the sequence so far, which only ever grows between calls. Each is indexed once.
        """
        for end in range(self._indexed, len(tokens)):  # n-grams that the token at `end` follows
            for size in self.sizes:
                if size <= end:
                    self._following[tuple(tokens[end - size : end])] = end
        self._indexed = len(tokens)
        for size in self.sizes:
            at = self._following.get(tuple(tokens[-size:]))
            if at is not None:
                # What repeats itself goes on doing so where the earlier text ends.
                return [tokens[at + i % (len(tokens) - at)] for i in range(most)]
        return []


def next_length(length: int, drafted: int, accepted: int, most: int) -> int:
    """How many tokens to draft after so many were accepted: two more after all, one fewer after a miss."""
    return min(length + 2, most) if accepted == drafted else max(length - 1, 1)
