"""What a simulated run says of itself, where its replicas are not all alike."""

import re

import numpy as np
import pytest

from twophase.calibration.estimate import Estimate
from twophase.calibration.floors import floor_times
from twophase.cost.deployment import deployed
from twophase.cost.parallel import ALONE
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.report.simulation import said_of, simulation_of
from twophase.report.simulation_text import plain
from twophase.simulate.groups import Group
from twophase.simulate.run import simulate
from twophase.workload.workload import Workload


def test_pass_times_and_caches_are_those_of_every_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    groups = [Group(load_accelerator(name)) for name in ("h100-sxm", "mi300x")]
    few = Workload(np.arange(6.0), np.full(6, 100), np.full(6, 5))
    text = " ".join(plain(simulation_of(simulate("llama-3.1-8b", groups, few), "m", "vllm")).split())
    assert "H100 SXM: served: " in text
    assert "MI300X: curves: " in text
    assert text.index("extrapolated from another accelerator's") > text.index("MI300X: curves: ")
    assert re.search(r"at most, of [0-9,]+ or [0-9,]+ tokens a replica", text)
    alike = [groups[0], groups[0]]
    text = plain(simulation_of(simulate("llama-3.1-8b", alike, few), "m", "vllm"))
    assert "H100 SXM: served: " not in text
    assert " or " not in next(line for line in text.splitlines() if "tokens a replica" in line)


def test_an_error_that_nobody_measured_is_said_to_be_assumed() -> None:
    gpu = load_accelerator("h100-sxm")
    times = floor_times(deployed(load_model("llama-3.1-8b"), ALONE, "bf16"), gpu, 16, 4)
    told = said_of(Estimate(times, "calibrated", (0.88, 1.12)))
    assert told.endswith("; four passes in five take 0.88 to 1.12 times as long")
    unknown = said_of(Estimate(times, "calibrated", (0.88, 1.12), assumed=True))
    assert unknown.endswith("; too few passes to tell its error, assumed: 0.88 to 1.12 times as long")
