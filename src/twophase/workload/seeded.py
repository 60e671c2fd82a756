"""Random numbers that one seed gives again on any machine."""

from hashlib import blake2b

import numpy as np


def generator(seed: str, purpose: str) -> np.random.Generator:
    """A stream of its own for each purpose: what one draws doesn't move another."""
    digest = blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
