"""All counts in order of cost, each once."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from twophase.plan.candidate import Candidate, Kind, Layout, key_of, usd_per_hour
from twophase.plan.frontier import Config, Frontier, count_of


def kind(gpu: str, tp: int) -> Kind:
    return Kind(Layout(gpu, "", "bf16", tp, 1, 1), 2048, 64)


@given(
    least=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    sizes=st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2])),
    most=st.integers(1, 12),
    by_devices=st.booleans(),
)
def test_everything_comes_once_and_in_order(
    least: tuple[int, int], sizes: tuple[int, int], most: int, by_devices: bool
) -> None:
    prices = {"a": 1.3, "b": 0.4}
    whole, split = kind("a", sizes[0]), (kind("b", sizes[0]), kind("b", sizes[1]))
    configs = [Config(whole, least[0]), Config(split[0], least[0], split[1], least[1])]
    frontier = Frontier(configs, prices, most, by_devices)
    found: list[Candidate] = []
    while frontier.heap:
        lowest = frontier.lowest
        taken = frontier.take(3, lowest)
        order = [each.devices if by_devices else usd_per_hour(each, prices) for each in taken]
        assert order == [lowest] * len(taken)
        found += taken
    expected = {Candidate(whole, n) for n in range(least[0], most + 1) if n * sizes[0] <= most}
    for d, p in product(range(least[0], most + 1), range(least[1], most + 1)):
        if d * sizes[0] + p * sizes[1] <= most:
            expected.add(Candidate(split[0], d, split[1], p))
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert len({key_of(each) for each in found}) == len(found)
    assert sum(count_of(each, most, least_only=True) for each in configs) == len(found)
    every = sum(n * sizes[0] <= most for n in range(1, most + 1))
    every += sum(d * sizes[0] + p * sizes[1] <= most for d, p in product(range(1, most + 1), repeat=2))
    assert sum(count_of(each, most) for each in configs) == every
