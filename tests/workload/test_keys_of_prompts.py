"""Keys against the tokens that they stand for: blocks are equal where all tokens before and in them are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twophase.workload.block_keys import Keys, block_keys
from twophase.workload.workload import Blocks, Streams, Workload


def keys_of(keys: Keys, request: int) -> list[int]:
    return keys.keys[keys.starts[request] : keys.starts[request + 1]].tolist()


def workload(prompts: list[int], outputs: list[int], content: Blocks | Streams | None) -> Workload:
    return Workload(np.zeros(len(prompts)), np.array(prompts), np.array(outputs), content)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(1, 8)),
        min_size=2,
        max_size=5,
    ),
    st.sampled_from([1, 2, 3, 4, 5, 8, 11, 16]),
)
def test_hash_ids_share_what_tokens_would(prompts: list[tuple[list[int], int]], block_size: int) -> None:
    """An id of eight tokens stands for a chain of choices; the last one may be partial."""
    names: dict[tuple[int, ...], int] = {}
    ids, tokens, lengths = [], [], []
    for chain, last in prompts:
        length = 8 * (len(chain) - 1) + last
        # a partial block's id is of its own, as its text ends elsewhere
        parts = [tuple(chain[: at + 1]) for at in range(len(chain))]
        parts[-1] = (*parts[-1], -last) if last < 8 else parts[-1]
        ids += [names.setdefault(part, len(names)) for part in parts]
        tokens.append([(choice, at) for choice in chain for at in range(8)][:length])
        lengths.append(length)
    starts = np.concatenate([[0], np.cumsum([len(chain) for chain, _ in prompts])])
    made = workload(lengths, [1] * len(lengths), Blocks(np.array(ids), starts, 8))
    keys = block_keys(made, block_size)
    assert keys is not None
    for one in range(len(prompts)):
        mine = keys_of(keys, one)
        assert len(mine) == lengths[one] // 8 * 8 // block_size  # nothing in a partial id
        for other in range(len(prompts)):
            for at, (a, b) in enumerate(zip(mine, keys_of(keys, other), strict=False)):
                if a == b:  # never a hit that tokens would not give
                    end = (at + 1) * block_size
                    assert tokens[one][:end] == tokens[other][:end]
                elif 8 % block_size == 0:  # nor a miss where blocks lie within ids
                    end = (at * block_size // 8 + 1) * 8
                    assert tokens[one][:end] != tokens[other][:end]


def test_a_prefix_shorter_than_a_block_is_never_shared() -> None:
    """SIM-08: 240 shared tokens are 15 blocks of 16, and none of 784 or 1536."""
    content = Streams(np.zeros(2, np.int64), 240, np.full(2, -1))
    made = workload([2000, 2000], [10, 10], content)
    for block_size, shared in ((16, 15), (784, 0), (1536, 0)):
        keys = block_keys(made, block_size)
        assert keys is not None
        same = [a == b for a, b in zip(keys_of(keys, 0), keys_of(keys, 1), strict=True)]
        assert sum(same) == shared


def test_turns_of_a_conversation_share_all_before_them_and_others_nothing() -> None:
    content = Streams(np.array([0, 0, 0]), 20, np.array([0, 0, 1]))
    made = workload([50, 130, 50], [40, 10, 40], content)
    keys = block_keys(made, 16)
    assert keys is not None
    first, second, other = (keys_of(keys, at) for at in range(3))
    assert len(first) == 89 // 16  # prompt and output, but for its last token
    assert first == second[: len(first)]
    assert [a == b for a, b in zip(first, other, strict=True)] == [True] + [False] * 4
    assert len({*first, *second, *other}) == len(second) + len(other) - 1


def test_nothing_shared_needs_no_keys() -> None:
    assert block_keys(workload([50], [1], None), 16) is None
