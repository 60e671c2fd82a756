"""twophase advise: the textbook's check questions, users' questions, and bad input."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twophase.advise.known import known_levers

Run = Callable[..., tuple[int, str, str]]
LLAMA = ("llama-3-8b", "--gpu", "h100-sxm")
READER = ("--prompt-tokens", "30000", "--output-tokens", "200", "--max-model-len", "40000")
CHAT = ("--prompt-tokens", "2000", "--output-tokens", "500")
ALONE = ("--concurrency", "1")
PREFILL_SIDE = ("prefix-cache", "fp8", "fp8-arithmetic", "prefill-kernels")
DECODE_SIDE = ("int8-weights", "int4-weights", "kv-fp8", "kv-int8", "speculation", "decode-kernels")
RIDGE = 989e12 / 3.35e12


def document(run: Run, *arguments: str) -> dict[str, Any]:
    status, out, err = run("advise", *arguments, "--json")
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def levers(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["lever"]: each for each in found["levers"]}


def gain(found: dict[str, Any], lever: str, aim: str) -> float:
    value = levers(found)[lever]["effects"][aim]["gain"]
    assert isinstance(value, float)
    return value


def test_prefill_is_one_pass_and_decode_one_a_token(run: Run) -> None:
    """Check question 1. A request alone: its prompt at once, then 499 passes that wait for one another."""
    found = document(run, *LLAMA, *CHAT, *ALONE, "--clock", "floor")
    before = found["before"]
    assert before["ttft_s"]["mean"] == pytest.approx(found["phases"]["prefill"]["seconds"], rel=0.01)
    serial = before["ttft_s"]["mean"] + 499 * before["itl_s"]["mean"]
    assert before["e2e_s"]["mean"] == pytest.approx(serial, rel=1e-6)
    assert gain(found, "shorter-output", "ttft") == pytest.approx(1.0)
    assert gain(found, "shorter-output", "throughput") == pytest.approx(2.0, rel=0.02)
    assert found["phases"]["decode"]["share"] == pytest.approx(0.99, abs=0.005)


@pytest.mark.parametrize("rows", ["1", "16"])
def test_intensity_is_the_number_of_rows(run: Run, rows: str) -> None:
    """Check question 2. FLOPs / weight bytes in 16 bits: rows of a prompt, sequences of a decode pass."""
    asked = ("--prompt-tokens", "256", "--output-tokens", "64", "--concurrency", rows)
    found = document(run, *LLAMA, *asked, "--clock", "floor")
    prefill, decode = found["phases"]["prefill"], found["phases"]["decode"]
    # attention is the rest; and the head, a seventh of the weights, counts one row of a prompt
    assert 0.9 * 256 < prefill["compute_s"] / prefill["weights_s"] * RIDGE * 1.07 < 1.1 * 256
    assert decode["compute_s"] / decode["weights_s"] * RIDGE == pytest.approx(round(found["batch"]), rel=0.05)


def test_itl_floor_of_an_8b_model(run: Run) -> None:
    """Check question 3: about 4.5 ms, bound by memory; the arithmetic takes 0.015 ms."""
    found = document(
        run, *LLAMA, "--prompt-tokens", "16", "--output-tokens", "64", *ALONE, "--clock", "floor"
    )
    decode = found["phases"]["decode"]
    assert found["before"]["itl_s"]["mean"] == pytest.approx(4.48e-3, rel=0.01)
    assert decode["bound"] == "memory"
    assert decode["compute_s"] == pytest.approx(0.0152e-3, rel=0.02)
    assert decode["memory_s"] == pytest.approx(4.48e-3, rel=0.01)


@pytest.fixture
def reader(run: Run) -> dict[str, Any]:
    return document(run, "llama-3.1-8b", "--gpu", "h100-sxm", *READER)


def test_long_prompts_and_short_answers_are_prefill_first(reader: dict[str, Any]) -> None:
    """Check question 4: prefix caching, FP8 arithmetic and attention kernels before decode-side tricks."""
    assert reader["clock"]["provenance"] == "served"
    require_prefill_first(reader)


def test_prefill_first_by_kernels_curves_too(run: Run) -> None:
    require_prefill_first(document(run, "llama-3.1-8b", "--gpu", "h100-sxm", *READER, "--clock", "curves"))


def require_prefill_first(reader: dict[str, Any]) -> None:
    assert reader["aim"] == "ttft"
    assert reader["dominant"] == "prefill"
    order = [each["lever"] for each in reader["levers"]]
    worst = max(order.index(each) for each in PREFILL_SIDE)
    assert worst < min(order.index(each) for each in DECODE_SIDE)
    found = levers(reader)
    for each in PREFILL_SIDE:
        assert found[each]["helps"], each
        assert found[each]["phase"] == "prefill"
    for each in DECODE_SIDE:
        assert not found[each]["helps"], each


def test_weight_only_quantisation_says_why_it_cannot_help(reader: dict[str, Any]) -> None:
    for lever in ("int8-weights", "int4-weights"):
        found = levers(reader)[lever]
        assert found["effects"]["ttft"]["gain"] == pytest.approx(1.0, abs=0.05)
        assert "prefill is bound by arithmetic" in found["why"]
        assert "which fewer bytes leave as it is" in found["why"]


def test_fp8_arithmetic_on_batch_one_decode_says_why_it_cannot_help(run: Run) -> None:
    found = document(run, *LLAMA, *CHAT, *ALONE, "--aim", "itl")
    arithmetic = levers(found)["fp8-arithmetic"]
    assert not arithmetic["helps"]
    assert arithmetic["effects"]["itl"]["gain"] <= 1.0
    assert "faster arithmetic leaves it as it is" in arithmetic["why"]
    order = [each["lever"] for each in found["levers"]]
    assert set(order[:2]) == {"speculation", "int4-weights"}
    # at a floor, FP8 weights gain by their bytes what INT8 weights do
    floor = document(run, *LLAMA, *CHAT, *ALONE, "--aim", "itl", "--clock", "floor")
    assert gain(floor, "fp8-arithmetic", "itl") == pytest.approx(1.0, abs=1e-3)
    assert gain(floor, "fp8", "itl") == pytest.approx(gain(floor, "int8-weights", "itl"), rel=0.01)
    # 16 bits of 6.98 billion weights become 8: the head's 0.53 billion and the KV cache stay
    assert gain(floor, "int8-weights", "itl") == pytest.approx((15.01 + 0.295) / (8.03 + 0.295), rel=0.01)
    assert levers(floor)["fp8"]["effects"]["itl"]["gain_range"] is None


def test_every_lever_with_every_figure(reader: dict[str, Any]) -> None:
    assert set(levers(reader)) == set(known_levers())
    for each in reader["levers"]:
        assert each["phase"] in ("prefill", "decode")
        assert each["why"].endswith(".")
        if each["method"] == "none":
            assert not each["effects"]
            assert not each["helps"]
            continue
        for aim in ("ttft", "itl", "throughput", "cost"):
            effect = each["effects"][aim]
            low, high = effect["gain_range"]
            assert 0 < low <= effect["gain"] <= high
        if each["kind"] == "engine":
            assert each["flags"], each["lever"]


def test_the_same_advice_again(run: Run, reader: dict[str, Any]) -> None:
    assert document(run, "llama-3.1-8b", "--gpu", "h100-sxm", *READER) == reader


def test_known_sharing_is_taken_as_it_is(run: Run) -> None:
    """With half of each prompt shared and the cache off, turning it on saves that; on, it is there."""
    asked = (*LLAMA, "--prompt-tokens", "4000", "--output-tokens", "50", "--rate", "2", "--shared", "0.5")
    off = document(run, *asked, "--no-prefix-cache")
    on = document(run, *asked)
    assert on["before"]["cached_share"] == pytest.approx(0.5, abs=0.01)
    assert levers(on)["prefix-cache"]["method"] == "none"
    effect = levers(off)["prefix-cache"]["effects"]["ttft"]
    assert effect["after"] == pytest.approx(on["before"]["ttft_s"]["mean"], rel=1e-9)


def test_a_window_of_counters(run: Run, tmp_path: Path) -> None:
    window = tmp_path / "window.json"
    figures = {"window_s": 300, "requests": 600, "prompt_tokens": 1_200_000, "generation_tokens": 150_000}
    window.write_text(json.dumps({**figures, "cached_share": 0.4}))
    found = document(run, "llama-3.1-8b", "--gpu", "h100-sxm", "--counters", str(window))
    load = found["load"]
    assert (load["requests_per_s"], load["prompt_tokens"], load["output_tokens"]) == (2.0, 2000.0, 250.0)
    assert found["before"]["cached_share"] == pytest.approx(0.4, abs=0.01)
    window.write_text(json.dumps({**figures, "requests": None}))
    status, _, err = run("advise", "llama-3.1-8b", "--counters", str(window))
    assert (status, err.count("\n")) == (2, 1)
    assert "requests is not told" in err
    for absurd in ({"requests": 1e14}, {"generation_tokens": 1e14}):
        window.write_text(json.dumps(figures | absurd))
        status, _, err = run("advise", "llama-3.1-8b", "--counters", window)
        assert status == 2
        assert "is no load" in err


def test_a_trace(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = "\n".join(f"{number / 4},{500 + 10 * number},{20 + number}" for number in range(60))
    trace.write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n")
    found = document(run, *LLAMA, "--trace", str(trace), "--aim", "throughput")
    assert found["load"]["kind"] == "trace"
    assert found["load"]["prompt_tokens"] == pytest.approx(500 + 10 * 29.5)
    assert found["load"]["requests_per_s"] == pytest.approx(4.0)


@pytest.mark.skipif("TWOPHASE_SHARED" not in os.environ, reason="needs the recorded traces")
def test_a_recorded_trace_with_block_hashes(run: Run) -> None:
    trace = Path(os.environ["TWOPHASE_SHARED"]) / "data/traces/mooncake_conversation_trace.jsonl"
    asked = ("llama-3.1-8b", "--gpu", "h100-sxm", "--trace", str(trace), "--requests", "200")
    off = document(run, *asked, "--no-prefix-cache", "--aim", "ttft")
    assert levers(off)["prefix-cache"]["effects"]["ttft"]["gain"] > 1
    assert levers(off)["prefix-cache"]["assumed"] is None


def test_smallest_gpu_that_meets_both_limits(run: Run) -> None:
    """ADV-01. 7.5e9 weights, 2,048 tokens: a T4's floors (490, 48 ms) would pass, its 16 GB do not hold the
    model and a cache; an A100 takes about 204 and 9.4 ms, 102 and 7.5 at its floor."""
    asked = ("--prompt-tokens", "2048", "--output-tokens", "128", *ALONE, "--slo", "ttft=500ms,tpot=50ms")
    status, out, err = run("advise", "llama-3-8b", "--gpu", "t4", *asked)
    assert (status, out) == (2, "")
    assert "no room for a KV cache on T4" in err
    found = document(run, "llama-3-8b", "--gpu", "a100-80gb", *asked)
    assert found["before"]["goodput"]["share"] == 1.0
    assert 0.102 < found["before"]["ttft_s"]["mean"] < 0.300
    assert 7.5e-3 < found["before"]["itl_s"]["mean"] < 12e-3


def test_the_objective_must_be_said(run: Run) -> None:
    """ADV-02. Goodput needs its limits; both the whole's and each GPU's are told."""
    status, _, err = run("advise", *LLAMA, *CHAT, "--aim", "goodput")
    assert status == 2
    assert "--slo" in err
    found = document(run, *LLAMA, *CHAT, "--rate", "2", "--slo", "ttft=300ms,tpot=12ms", "--tp", "2")
    assert found["aim"] == "goodput"
    goodput = found["before"]["goodput"]
    assert goodput["requests_per_s_per_gpu"] == pytest.approx(goodput["requests_per_s"] / 2)
    assert 2 < goodput["most_requests_per_s"] <= 1.25 * found["before"]["throughput"]["requests_per_s"]


def test_is_36_tokens_a_second_normal(run: Run) -> None:
    """ADV-05. One user's floor is about 7.5 ms. Five touch 37.6 experts a layer in place of 8, 40 layers of
    3 x 2048 x 512 weights in 4.5 bits each: 8.2 ms more at 256 GB/s. 132 ms are many times that.

    The case says 25 to 35 ms, for which all bytes would have to grow as the experts do.
    """
    asked = ("--prompt-tokens", "128", "--output-tokens", "256", "--clock", "floor", "--weights", "q4_0")
    machine = ("qwen3.6-35b-a3b", "--gpu", "strix-halo")
    one = document(run, *machine, *asked, *ALONE)
    assert one["before"]["itl_s"]["mean"] == pytest.approx(7.5e-3, rel=0.05)
    five = document(run, *machine, *asked, "--concurrency", "5", "--measured", "tpot=132ms")
    touched = 256 * (1 - (1 - 8 / 256) ** 5)
    grown = (touched - 8) * 40 * 3 * 2048 * 512 * 4.5 / 8 / 256e9
    weights_s = [each["phases"]["decode"]["weights_s"] for each in (one, five)]
    assert weights_s[1] - weights_s[0] == pytest.approx(grown, rel=0.02)
    (said,) = [each for each in five["notes"] if each.startswith("Measured TPOT")]
    assert float(said.split(" is ")[1].split("×")[0]) > 4
    assert "fallback kernel" in said
    throughput = five["before"]["throughput"]["output_tokens_per_s"]
    assert throughput == pytest.approx(5 / five["before"]["itl_s"]["mean"], rel=0.1)  # all users' together


def test_users_of_a_logged_cache(run: Run) -> None:
    """ADV-07. 37,765 tokens hold 47 requests of 800; no more fit, whatever the engine's limit."""
    blocks = ("--kv-blocks", str(37_765 // 16))
    found = document(run, *LLAMA, "--prompt-tokens", "600", "--output-tokens", "200", "--rate", "4", *blocks)
    assert found["max_concurrency"] == 47
    assert "holds 47 sequences" in levers(found)["larger-batch"]["why"]


def test_every_rate_says_of_what(run: Run) -> None:
    """ADV-09. Output tokens, a GPU's and all GPUs', requests: they are tied to one another."""
    found = document(run, *LLAMA, "--prompt-tokens", "1000", "--output-tokens", "1000", "--tp", "2")
    rates = found["before"]["throughput"]
    assert rates["output_tokens_per_s"] == pytest.approx(1000 * rates["requests_per_s"], rel=1e-6)
    assert rates["output_tokens_per_s_per_gpu"] == pytest.approx(rates["output_tokens_per_s"] / 2)
    usd, price = found["before"]["usd_per_million_output_tokens"], found["before"]["usd_per_1000_requests"]
    assert usd == pytest.approx(price, rel=1e-6)  # a thousand requests of a thousand tokens


def test_plain_text_names_aim_price_and_flags(run: Run) -> None:
    status, out, err = run("advise", "llama-3.1-8b", "--gpu", "h100-sxm", *READER, "--plain")
    assert (status, err) == (0, "")
    helping, rest = out.split("What would not help TTFT")
    assert "What would help TTFT" in helping
    assert "--quantization fp8" in helping
    assert "Price: small" in helping
    assert "INT4 weights" in rest
    assert all(len(line) <= 110 for line in out.splitlines())


OVERLOAD = (*LLAMA, "--prompt-tokens", "2000", "--output-tokens", "50", "--rate", "200")


def test_overload_is_said_first_and_asks_for_throughput(run: Run) -> None:
    """200 requests/s of 2,000 tokens: 2 x 7.5e9 FLOPs a token are six times what 989 TFLOP/s do."""
    found = document(run, *OVERLOAD, "--measured", "ttft=1s,tpot=30ms")
    apart = levers(found)["disaggregation"]["why"]
    assert "TTFT" not in apart and "replicas of both give a queue that grows without bound" in apart
    compared = [each.split()[:2] for each in found["notes"] if "TTFT of" in each or "TPOT" in each]
    assert compared == [["TTFT", "of"], ["Measured", "TPOT"]]
    assert found["before"]["overload"] and found["aim"] == "throughput"
    assert found["notes"][0].startswith("The queue grows without bound: ")
    ranked = "No --aim was given: levers are ranked by throughput, as more comes than is served"
    assert ranked in found["notes"]
    gains = [
        each["effects"]["throughput"]["gain"]
        for each in found["levers"]
        if each["helps"] and each["kind"] != "workload"
    ]
    assert gains and gains == sorted(gains, reverse=True)
    assert all(
        each["effects"]["ttft"]["gain_range"] is None for each in found["levers"] if each["method"] != "none"
    )
    status, out, _ = run("advise", *OVERLOAD, "--aim", "ttft", "--plain")
    assert status == 0
    assert out.index("The queue grows without bound") < out.index("As it is")
    assert out.count("The queue grows without bound") == 1
    assert "TTFT grows with the queue" in out and "TTFT grows on and on" in out
    assert not re.search(r"TTFT [0-9.]+×", out)


def test_a_simulated_run_is_not_called_measured(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "run"
    load = ("--prompt-tokens", "500", "--output-tokens", "20", "--rate", "4", "--requests", "100")
    status, _, err = run("simulate", *LLAMA, "--tp", "2", *load, "-o", str(kept), "--json")
    assert status == 0, err
    notes = document(run, *LLAMA, "--tp", "2", "--run", str(kept))["notes"]
    (ttft,) = [each for each in notes if each.startswith("Simulated TTFT")]
    assert any(each.startswith("Simulated TPOT") for each in notes)
    assert not any(each.startswith("Measured") for each in notes)
    assert 0.8 < float(ttft.split(" is ")[1].split("×")[0]) < 1.25  # the same simulation again
    notes = document(run, *LLAMA, "--run", str(kept), "--measured", "e2e=1s")["notes"]
    assert "The run was simulated on H100 SXM (TP2), this is H100 SXM: its times are not compared" in notes
    assert [each.split()[:2] for each in notes if "what is predicted" in each] == [["Measured", "E2E"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say what is asked"),
        (("--rate", "3"), "say what is asked"),
        ((*CHAT, "--rate", "1", "--concurrency", "2"), "one of --rate and --concurrency"),
        ((*CHAT, "--trace", "x.csv"), "--trace and --prompt-tokens don't go together"),
        (("--trace", "x.csv", "--counters", "y.json"), "both say what is asked"),
        ((*CHAT, "--slo", "gap=3ms"), "not by gap"),
        ((*CHAT, "--shared", "1"), "--shared 1"),
        ((*CHAT, "--acceptance", "1.5"), "--acceptance 1.5"),
        ((*CHAT, "--rate", "0"), "--rate 0"),
        ((*CHAT, "--concurrency", "0"), "--concurrency 0"),
        ((*CHAT, "--preset", "vlm"), "vllm"),
        ((*CHAT, "--measured", "gap=3ms"), "--measured gap=3ms: give ttft, tpot, e2e"),
        ((*CHAT, "--measured", "x"), "--measured x"),
        ((*CHAT, "--json", "--plain"), "one of --json and --plain"),
        (("--counters", "nowhere.json"), "nowhere.json"),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = run("advise", *LLAMA, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_what_was_measured_is_read_before_the_work(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def weigh(*arguments: object, **options: object) -> None:
        raise AssertionError("weighed all the same")

    monkeypatch.setattr("twophase.advise.advising.advise", weigh)
    status, _, err = run("advise", *LLAMA, *CHAT, "--measured", "ttft=1s,gap=3ms")
    assert status == 2 and "not gap" in err
