"""The JSON document holds the keys that are an interface."""

import json
from dataclasses import replace

import pytest
from machine import CHAT, diagnosis

from twophase.report.diagnosis_json import to_json


def test_interface_keys() -> None:
    found = json.loads(to_json(diagnosis(CHAT, 2000, 500, model="llama ü")))
    assert {"flops_per_s", "read_bytes_per_s", "ridge_flop_per_byte"} <= found["roofs"].keys()
    for row in found["prefill"]:
        assert {"prompt_tokens", "ttft_s", "floor_s", "mfu", "bound"} <= row.keys()
    for row in found["decode"]:
        assert {"batch", "context", "itl_s", "floor_s", "mbu", "bound"} <= row.keys()
    request = {"prompt_tokens", "output_tokens", "prefill_s", "decode_s", "dominant"}
    assert request <= found["request"].keys()
    assert {"dominant", "bound", "advice"} <= found["verdict"].keys()
    assert found["model"] == "llama ü"
    assert found["weights"] == "real"


def test_values_are_the_diagnosis() -> None:
    found = json.loads(to_json(diagnosis(CHAT, 2000, 500)))
    assert found["roofs"]["ridge_flop_per_byte"] == 100
    assert found["prefill"][-1]["ttft_s"] == pytest.approx(0.2048)
    assert found["request"]["decode_s"] == pytest.approx(4.99)
    assert found["verdict"]["dominant"] == "decode"


def test_no_number_that_json_lacks() -> None:
    result = diagnosis(CHAT, 2000, 500)
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(replace(result, seconds=float("nan")))
