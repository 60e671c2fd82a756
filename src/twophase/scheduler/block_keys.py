"""Keys under which a sequence's full KV blocks are found again: equal tokens before and in it, equal key."""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np


class BlockKeys:
    """The chain of one sequence: each key covers its block's tokens and all before them.

    `salt` (at most 64 bytes) is secret to a server: with it nobody can look for two prompts that collide.
    """

    def __init__(self, block_size: int, salt: bytes) -> None:
        self._block_size, self._salt = block_size, salt
        self._parent, self._covered = b"", 0

    def extend(self, ids: Sequence[int]) -> list[int]:
        """Keys (signed, 64 bits) of the blocks that `ids`, all known tokens, filled since the last call."""
        size = self._block_size
        starts = range(self._covered, len(ids) - len(ids) % size + 1, size)
        keys = []
        for start, end in pairwise(starts):
            tokens = np.asarray(ids[start:end], np.int64).tobytes()
            self._parent = blake2b(self._parent + tokens, digest_size=8, key=self._salt).digest()
            keys.append(int.from_bytes(self._parent, "little", signed=True))
        self._covered = starts[-1] if starts else self._covered
        return keys
