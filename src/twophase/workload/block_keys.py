"""Keys under which a workload's full KV blocks are found again: equal tokens before and in it, equal key."""

from typing import NamedTuple

import numpy as np

from twophase.workload.workload import Blocks, Ints, Streams, Workload


class Keys(NamedTuple):
    """Of all requests, one after the other."""

    keys: Ints  # in order of first appearance, those of blocks that follow each other in a row
    starts: Ints  # [requests + 1] in keys


def block_keys(workload: Workload, block_size: int) -> Keys | None:
    """One key for each full block of a request, from its start on; None where nothing is ever shared.

    What identifies a block's last token with all before it has a run of keys, one for each block in it. Such
    keys lie beside each other in a hash table by key: a prompt's blocks are looked up in few cache lines.
    """
    content = workload.content
    if content is None:
        return None
    if isinstance(content, Blocks):
        return _of_ids(workload, content, block_size)
    return _of_streams(workload, content, block_size)


def _of_ids(workload: Workload, content: Blocks, block_size: int) -> Keys:
    """An id stands for a whole prefix, so the block's last token names it. A partial id names nothing."""
    position = _numbered(np.diff(content.starts))[1]
    names = _first_seen(content.ids, position)
    whole = np.minimum(workload.prompt_tokens // content.tokens, np.diff(content.starts))
    owner, number, starts = _numbered(whole * content.tokens // block_size)
    last = ((number + 1) * block_size - 1) // content.tokens
    run = -(-content.tokens // block_size)  # blocks that end in one id
    return Keys(names[content.starts[owner] + last] * run + number % run, starts)


def _of_streams(workload: Workload, content: Streams, block_size: int) -> Keys:
    """Blocks of a prefix are everyone's who has it, those of a conversation all its turns', outputs too."""
    alone = content.conversation < 0
    shared = np.where(content.prefix >= 0, content.prefix_tokens, 0)
    # the last token's KV is never computed
    whole = np.where(alone, np.minimum(shared, workload.prompt_tokens), _known(workload) - 1)
    owner, number, starts = _numbered(whole // block_size)
    in_prefix = (number + 1) * block_size <= shared[owner]
    names = _first_seen(
        np.concatenate([content.prefix, content.conversation]), np.repeat([0, 1], len(workload))
    )
    name = names[np.where(in_prefix, owner, owner + len(workload))]
    run = np.zeros(len(names) + 1, np.int64)
    np.maximum.at(run, name + 1, number + 1)
    return Keys(np.cumsum(run)[name] + number, starts)


def _first_seen(values: Ints, kinds: Ints) -> Ints:
    """Each pair's number, in order of first appearance."""
    _, which = np.unique(values, return_inverse=True)
    _, first, which = np.unique(
        which * (1 + kinds.max(initial=0)) + kinds, return_index=True, return_inverse=True
    )
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[which]


def _known(workload: Workload) -> Ints:
    return workload.prompt_tokens + workload.output_tokens


def _numbered(counts: Ints) -> tuple[Ints, Ints, Ints]:
    """(whose, its number, starts) of so many blocks of each request."""
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(starts[-1]) - starts[owner], starts
