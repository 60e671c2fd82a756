"""Levers of a measured request whose sentence and gain are worked out by hand."""

import pytest

from twophase.advise.diagnosis import Bend
from twophase.advise.evidence import Evidence, PhaseCost
from twophase.advise.levers import better_kernels


def case(roof_share: float) -> Evidence:
    """Decode took 10 s; its floor by the best of the run is 5 s. Prefill adds nothing."""
    nothing = PhaseCost(0.0, 0.0, 0.0, 1.0)
    decode = PhaseCost(10.0, 1.0, 5.0, 1.0, roof_share=roof_share)
    return Evidence(10, 10, nothing, decode, Bend(0.0, 0.0, 0.0, None, 1.0), (), 1e9, 0.0)


@pytest.mark.parametrize(
    ("roof_share", "gain", "share"),
    [
        (1.0, 10 / (5 / 0.9), "50%"),
        (0.625, 10 / (8 / 0.9), "80%"),  # the machine had slowed down: 8 s were its floor then
        (0.5, 1.0, "100%"),  # and so far that nothing is left to gain
    ],
)
def test_one_floor_for_gain_and_sentence(roof_share: float, gain: float, share: str) -> None:
    lever = better_kernels(case(roof_share), "decode")
    assert lever.gain == pytest.approx(gain)
    assert f"it runs at {share} of the floor's speed" in lever.why
    assert ("meanwhile" in lever.why) == (roof_share < 1)
