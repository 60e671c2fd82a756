"""Keys of KV blocks follow the tokens, however they came."""

from hypothesis import given
from hypothesis import strategies as st

from twophase.scheduler.block_keys import BlockKeys

ids = st.lists(st.integers(0, 1 << 20), max_size=80)


@given(ids, st.lists(st.integers(0, 80), max_size=5))
def test_the_same_tokens_have_the_same_keys_in_any_steps(tokens: list[int], cuts: list[int]) -> None:
    whole = BlockKeys(16, b"salt").extend(tokens)
    assert len(whole) == len(tokens) // 16
    steps, keys = BlockKeys(16, b"salt"), []
    for cut in [*sorted(min(cut, len(tokens)) for cut in cuts), len(tokens)]:
        keys += steps.extend(tokens[:cut])
    assert keys == whole


@given(ids.filter(lambda tokens: len(tokens) >= 32), st.data())
def test_a_key_covers_all_before_it(tokens: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(tokens) - 1))
    changed = [*tokens[:at], tokens[at] + 1, *tokens[at + 1 :]]
    keys, others = BlockKeys(16, b"").extend(tokens), BlockKeys(16, b"").extend(changed)
    first = at // 16
    assert keys[:first] == others[:first]
    assert not set(keys[first:]) & set(others[first:])


def test_another_salt_gives_other_keys() -> None:
    assert BlockKeys(4, b"a").extend(range(8)) != BlockKeys(4, b"b").extend(range(8))
