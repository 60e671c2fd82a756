"""A curve's formula and grids, by hand."""

import numpy as np
import pytest

from twophase.calibration.curve import Curve, Grid, correction, curve_s
from twophase.calibration.curves import curves_of
from twophase.calibration.exchanging import exchange_s
from twophase.calibration.experts import grouped_work
from twophase.hardware.accelerator import Link
from twophase.hardware.catalogue import load_accelerator

H100 = load_accelerator("h100-sxm")


def test_arithmetic_and_traffic_meet_in_a_soft_knee() -> None:
    curve = Curve("bf16", 2e-6, 0.5, 0.8, 2.0)
    flops, moved = np.array([H100.peak("bf16") * 3e-6 * 0.5]), np.array([H100.bandwidth * 4e-6 * 0.8])
    assert curve_s(curve, H100, flops, moved, {}) == pytest.approx([7e-6])  # 2 + √(3² + 4²)


def test_between_knots_logs_are_interpolated_and_beyond_them_the_edge_holds() -> None:
    grid = Grid(
        ("a", "b"), (np.array([1.0, 100.0]), np.array([1.0, 16.0])), np.array([[0.0, 0.4], [0.2, 0.6]])
    )
    curve = Curve("bf16", 0.0, 1.0, 1.0, 1.0, (grid, grid))
    at = {"a": np.array([10.0, 1000.0, 0.5]), "b": np.array([4.0, 1.0, 256.0])}
    assert correction(curve, at) == pytest.approx([2 * 0.3, 2 * 0.2, 2 * 0.4])


def test_uniform_routing_touches_these_experts() -> None:
    rows = np.array([1.0, 16.0])
    _, _, features = grouped_work(rows, 128, 8, 1, 2048, 768, 3, 1e6)
    assert features["touched"] == pytest.approx([8.0, 128 * (1 - (1 - 1 / 16) ** 16)])
    assert features["rows"] == pytest.approx([1.0, 128 / features["touched"][1]])


def test_what_exceeds_latency_goes_with_the_link() -> None:
    curve = curves_of(H100).exchange["all-reduce"]
    payload = np.array([1024.0, 64e6])
    own = exchange_s(curve, payload, 8, H100.intra)
    half = exchange_s(curve, payload, 8, Link(H100.intra.bandwidth / 2, 0.0))
    assert half[0] == pytest.approx(own[0])
    assert half[1] - own[0] == pytest.approx(2 * (own[1] - own[0]))


def test_a_machine_without_data_has_a_relatives_curves_and_a_wider_interval() -> None:
    own, other = curves_of(H100), curves_of(load_accelerator("h800"))
    assert not own.extrapolated and other.extrapolated
    assert other.gemm["bf16"].compute == own.gemm["bf16"].compute
    assert other.interval[0] < own.interval[0] < 1 < own.interval[1] < other.interval[1]
    assert curves_of(load_accelerator("mi300x")).extrapolated
