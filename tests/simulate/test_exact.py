"""The compiled loop and the engine's own loop, given equal pass times: the same passes, span by span."""

import numpy as np
import pytest
from random_loads import load

from twophase.scheduler.policy import POLICIES
from twophase.simulate.books import (
    ACCEPTED,
    CACHED,
    GAP_S,
    LOST_BLOCKS,
    PASSES,
    SECONDS,
    SEQUENCES,
    Passes,
)
from twophase.simulate.driven import simulate_with
from twophase.simulate.simulation import simulate_replica


def gaps_in(passes: Passes) -> list[tuple[float, int]]:
    """Held-up sequences, equal gaps of one pass together or not."""
    return sorted(
        round(float(gap), 6) for gap, often in passes.gaps[:, [GAP_S, SEQUENCES]] for _ in range(int(often))
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("drafts", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_passes_span_by_span(policy: str, drafts: bool, seed: int) -> None:
    requests, limits, times = load(100 * seed + len(policy), drafts=drafts, outputs_keyed=seed % 2 == 1)
    engine = simulate_with(policy, requests, limits, times, seed=seed)
    ours = simulate_replica(requests, limits, times, policy, seed=seed, trace=True)
    assert np.array_equal(ours.passes.spans, engine.passes.spans)
    assert np.array_equal(ours.records.counts, engine.records.counts)
    np.testing.assert_allclose(ours.records.moments, engine.records.moments, rtol=1e-12)
    np.testing.assert_allclose([ours.ended_s, ours.busy_s], [engine.ended_s, engine.busy_s], rtol=1e-12)
    assert gaps_in(ours.passes) == gaps_in(engine.passes)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", POLICIES)
def test_closed_form_is_what_stepping_gives(policy: str, seed: int) -> None:
    requests, limits, times = load(1000 + seed, drafts=False, outputs_keyed=seed % 2 == 1)
    fast = simulate_replica(requests, limits, times, policy)
    slow = simulate_replica(requests, limits, times, policy, closed_form=False)
    assert np.all(slow.passes.counts[:, PASSES] == 1)
    assert fast.passes.counts[:, PASSES].sum() == len(slow.passes.counts)
    first = np.cumsum(fast.passes.counts[:, PASSES]) - fast.passes.counts[:, PASSES]
    assert np.array_equal(fast.passes.counts[:, 1:], slow.passes.counts[first, 1:])
    sums = np.add.reduceat(slow.passes.seconds[:, 1:], first)
    np.testing.assert_allclose(fast.passes.seconds[:, [1, 3, 4]], sums[:, [0, 2, 3]], rtol=1e-11)
    np.testing.assert_allclose(fast.records.moments, slow.records.moments, rtol=1e-12)
    assert np.array_equal(fast.records.counts, slow.records.counts)


def test_the_loads_meet_what_they_are_for() -> None:
    """Preemptions, hits, accepted drafts, runs and held-up sequences are all there."""
    found = np.zeros(5)
    for seed in range(6):
        requests, limits, times = load(100 * seed + 12, drafts=seed % 2 == 0, outputs_keyed=True)
        done = simulate_replica(requests, limits, times, "decode-first" if seed < 3 else "prefill-first")
        lost, cached, right = done.records.counts[:, [LOST_BLOCKS, CACHED, ACCEPTED]].sum(0)
        found += lost, cached, right, done.passes.counts[:, PASSES].max(), len(done.passes.gaps)
        assert done.passes.seconds[:, SECONDS].min() > 0
    assert np.all(found > 20), found
