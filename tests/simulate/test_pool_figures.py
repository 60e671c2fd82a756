"""What each pool of a simulated run did, computed by hand: how many to prefill, and how many to decode?"""

import pools_by_hand as by_hand
import pytest

from twophase.hardware.accelerator import Link
from twophase.report.simulation import Simulation, simulation_of
from twophase.report.simulation_html import page
from twophase.report.simulation_json import document
from twophase.report.simulation_text import plain, pool_rows
from twophase.scheduler.request import Limits
from twophase.simulate.running import Wire, run_pools


def apart() -> Simulation:
    """Three prompts of a pass (1 s) each at 0 s, one after the other; what they lead to are passes of 0.125 s
    on either of two decode replicas, 4 for each request, each over before the next one's KV comes.
    """
    tight = Limits(blocks=100, context_length=200, max_sequences=1, max_tokens=100, block_size=10)
    pools = [by_hand.pool("prefill", limits=tight), by_hand.pool("decode", 2, limits=tight)]
    load = by_hand.workload(*[(0.0, 100, 4)] * 3)
    run = run_pools(pools, load, wire=Wire(Link(1e18, 0.0), overlap=False))
    return simulation_of(run, "m", "vllm")


def test_each_pool_has_figures_of_its_own() -> None:
    """All ends at 3.5 s: prefill is busy for 3 of them, decode for 1.5 of 7. Two wait in the first pass, one
    in the second, none in the third."""
    own = apart()
    assert own.run.ended_s == pytest.approx(3.5)
    prefill, decode = document(own)["simulation"]["pools"]
    assert (prefill["role"], decode["role"]) == ("prefill", "decode")
    assert prefill["busy_share"] == pytest.approx(3 / 3.5)
    assert decode["busy_share"] == pytest.approx(1.5 / 7)
    assert prefill["waiting"] == {"mean": pytest.approx(1.0), "peak": 2}
    assert decode["waiting"] == {"mean": 0.0, "peak": 0}
    assert (prefill["batch"]["peak"], decode["batch"]["peak"]) == (1, 1)
    assert prefill["kv_use"]["peak"] == pytest.approx(0.10, abs=0.011)  # 10 blocks of 100
    assert decode["kv_use"]["peak"] == pytest.approx(0.11, abs=0.001)  # and one of its outputs
    together = document(own)["simulation"]
    assert together["busy_share"] == pytest.approx(4.5 / 10.5)


def test_pools_are_shown_where_there_are_several() -> None:
    own = apart()
    lines = plain(own).splitlines()
    shown = [line.split() for line in lines if line.startswith(("1 × prefill", "2 × decode"))]
    assert [line[-9:] for line in shown] == [row[1:] for row in pool_rows(own)]
    assert [row[:2] for row in pool_rows(own)] == [
        ["1 × prefill H100 SXM", "86%"],
        ["2 × decode H100 SXM", "21%"],
    ]
    assert "<h2>The pools</h2>" in page(own)
    one = simulation_of(run_pools([by_hand.pool()], by_hand.workload((0.0, 100, 4))), "m", "vllm")
    assert "The pools" not in plain(one) + page(one)
