"""A curve's formula and grids, by hand."""

from math import comb

import numpy as np
import pytest

from twophase.calibration.curve import Curve, Grid, correction, curve_s
from twophase.calibration.curves import curves_of
from twophase.calibration.exchanging import dispatches_s, exchange_s
from twophase.calibration.experts import grouped_work
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.hardware.accelerator import Link
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model

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


def test_over_pcie_a_faster_slot_is_no_gain_and_a_slower_one_is_a_loss() -> None:
    """NCCL as it comes: 22.2 GB/s of a bus were measured on RTX PRO 6000 in PCIe 5 slots
    (github.com/voipmonitor/rtx6kpro, hardware/pcie-bandwidth.md), 20 to 22 on L40S in PCIe 4 slots."""
    for name in ("rtx-pro-6000", "l40s"):
        gpu = load_accelerator(name)
        payload = np.array([256e6])
        seconds = exchange_s(curves_of(gpu).exchange["all-reduce"], payload, 2, gpu.intra)
        assert 18e9 < payload[0] / seconds[0] < 24e9  # of two devices each sends all of it, in two halves
    t4, l40s = load_accelerator("t4"), load_accelerator("l40s")
    curve = curves_of(l40s).exchange["all-reduce"]
    slow, fast = (exchange_s(curve, np.array([1e9]), 2, gpu.intra)[0] for gpu in (t4, l40s))
    assert slow == pytest.approx(2 * fast, rel=1e-3)  # PCIe 3


def test_over_pcie_rows_go_to_all_devices_and_over_nvlink_where_they_are_needed() -> None:
    """DP 8, EP 8 of 128 experts, 8 a row: to 7 others, or to 4.6 of them."""
    model = load_model("qwen3-30b-a3b")
    own = Deployment(model.spec, model.storage, plan=Plan(ep=8, dp=8))
    rows = np.array([4096.0])
    payload = rows * 2048 * 2  # of one rank
    for name, others in (("l40s", 7.0), ("h100-sxm", 7 * (1 - comb(112, 8) / comb(128, 8)))):
        gpu = load_accelerator(name)
        curves = curves_of(gpu)
        one_way = exchange_s(curves.exchange["all-to-all"], payload * others * 8 / 7, 8, gpu.intra)
        assert dispatches_s(own, gpu, curves, rows) == pytest.approx(2 * 48 * one_way)


def test_a_machine_without_data_has_a_relatives_curves_and_a_wider_interval() -> None:
    own, other = curves_of(H100), curves_of(load_accelerator("h800"))
    assert not own.extrapolated and other.extrapolated
    assert other.gemm["bf16"].compute == own.gemm["bf16"].compute
    assert other.interval[0] < own.interval[0] < 1 < own.interval[1] < other.interval[1]
    assert curves_of(load_accelerator("mi300x")).extrapolated
