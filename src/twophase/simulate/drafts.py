"""How many drafts are accepted: drawn by request and position, so that no order of passes changes it."""

WORD = 0xFFFFFFFF


def mixed(word: int) -> int:
    """A bijection of 32 bits (hash-prospector's best of two rounds): the same on every machine, compiled or
    not, as no product is as long as 64 bits."""
    word = ((word ^ (word >> 16)) * 0x21F0AAAD) & WORD
    word = ((word ^ (word >> 15)) * 0x735A2D97) & WORD
    return word ^ (word >> 15)


def chance(seed: int, request: int, position: int) -> float:
    """In [0, 1), of one token of one request."""
    return mixed(mixed(mixed(seed & WORD) ^ (request & WORD)) ^ (position & WORD)) / 4294967296.0


def accepted(seed: int, request: int, known: int, drafts: int, rate: float) -> int:
    """Of so many drafts behind `known` tokens, those before the first that is wrong."""
    right = 0
    while right < drafts and chance(int(seed), int(request), int(known) + right) < rate:
        right += 1
    return right
