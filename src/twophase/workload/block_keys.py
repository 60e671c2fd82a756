"""Keys under which a workload's full KV blocks are found again: equal tokens before and in it, equal key."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.workload.workload import Blocks, Ints, Streams, Workload

Words = NDArray[np.uint64]


class Keys(NamedTuple):
    """Of all requests, one after the other."""

    keys: Ints  # 64 bits, signed
    starts: Ints  # [requests + 1] in keys


def block_keys(workload: Workload, block_size: int) -> Keys | None:
    """One key for each full block of a request, from its start on; None where nothing is ever shared.

    A key is a mix of what identifies the block's last token with all before it, and of the block's number.
    """
    content = workload.content
    if content is None:
        return None
    if isinstance(content, Blocks):
        return _of_ids(workload, content, block_size)
    return _of_streams(workload, content, block_size)


def _of_ids(workload: Workload, content: Blocks, block_size: int) -> Keys:
    """An id stands for a whole prefix, so the block's last token names it. A partial id names nothing."""
    whole = np.minimum(workload.prompt_tokens // content.tokens, np.diff(content.starts))
    owner, number, starts = _numbered(whole * content.tokens // block_size)
    last = ((number + 1) * block_size - 1) // content.tokens
    return Keys(mixed(splitmix64(_words(content.ids)), content.starts[owner] + last, number), starts)


def _of_streams(workload: Workload, content: Streams, block_size: int) -> Keys:
    """Blocks of a prefix are everyone's who has it, those of a conversation all its turns', outputs too."""
    alone = content.conversation < 0
    shared = np.where(content.prefix >= 0, content.prefix_tokens, 0)
    # the last token's KV is never computed
    whole = np.where(alone, np.minimum(shared, workload.prompt_tokens), _known(workload) - 1)
    owner, number, starts = _numbered(whole // block_size)
    in_prefix = (number + 1) * block_size <= shared[owner]
    prefixes, talks = 2 * content.prefix, 2 * content.conversation + 1
    names = splitmix64(_words(np.concatenate([prefixes, talks])))
    return Keys(mixed(names, np.where(in_prefix, owner, owner + len(workload)), number), starts)


def _known(workload: Workload) -> Ints:
    return workload.prompt_tokens + workload.output_tokens


def _numbered(counts: Ints) -> tuple[Ints, Ints, Ints]:
    """(whose, its number, starts) of so many blocks of each request."""
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(starts[-1]) - starts[owner], starts


def mixed(names: Words, which: Ints, number: Ints) -> Ints:
    """A key of each block: its name, which is well mixed already, with its number."""
    return splitmix64(names[which] + _words(number)).view(np.int64)


def splitmix64(words: Words) -> Words:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits, all of which matter."""
    made = words + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        made ^= made >> np.uint64(shift)
        made *= np.uint64(factor)
    made ^= made >> np.uint64(31)
    return made


def _words(numbers: Ints) -> Words:
    return numbers.astype(np.uint64)
