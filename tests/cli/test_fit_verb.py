"""twophase fit: its keys, its lines, and what it says of bad input."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
LLAMA = ("llama-3.1-8b", "--gpu", "h100")


def document(run: Run, *arguments: str) -> dict[str, Any]:
    status, out, err = run("fit", *arguments, "--json")
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_pool_by_hand(run: Run) -> None:
    """vLLM 0.19 on Llama 3.1 8B: 58.11 GiB are 476,016 tokens, 58.11x at 8,192."""
    for pool in ("58.11GiB", "58.11 gib", "62395137392"):
        found = document(run, *LLAMA, "--kv-pool-bytes", pool, "--max-model-len", "8192")
        assert found["kv_tokens"] == pytest.approx(476_016, rel=1e-4)
        assert found["max_concurrency"] == pytest.approx(58.11, abs=0.01)
        assert found["fits"] is True
        assert found["needs"] == []


def test_every_term_given(run: Run) -> None:
    found = document(
        run,
        *(*LLAMA, "--gpu-memory-utilization", "0.95", "--max-model-len", "8192", "--kv", "fp8"),
        *("--weights-bytes", "14.99GiB", "--activation-bytes", "1.89GiB", "--non-torch-bytes", "0.25GiB"),
    )
    assert found["kv_tokens"] == pytest.approx(952_032, rel=0.005)
    assert found["kv_blocks"] * 16 == found["kv_tokens"]
    assert found["weights_bytes"] == pytest.approx(14.99 * 2**30)
    assert found["reserve_bytes"] == pytest.approx(2.14 * 2**30)
    parts = ("weights_bytes", "reserve_bytes", "kv_pool_bytes")
    assert sum(found[part] for part in parts) == pytest.approx(found["usable_bytes"])
    assert {term["origin"] for term in found["terms"]} == {"given"}


def test_what_does_not_fit_is_an_answer(run: Run) -> None:
    asked = ("qwen3-32b", "--max-model-len", "32000", "--engine-version", "0.11")
    found = document(run, *asked)
    assert found["fits"] is False
    assert found["short_bytes"] == pytest.approx(3.34 * 2**30, rel=0.02)
    for change in found["needs"]:
        flags = change["flags"].split()
        assert document(run, *asked, *flags)["fits"] is True, flags
    status, out, err = run("fit", *asked)
    assert (status, err) == (0, "")
    assert "does not fit" in out.splitlines()[0]
    assert "--tp 2" in out


def test_batches_at_contexts(run: Run) -> None:
    pool = ("--kv-pool-bytes", "1GiB", "--max-model-len", "8192")
    found = document(run, *LLAMA, *pool, "--context", "1024:8192:x2")
    assert found["largest_batch"] == {"1024": 8, "2048": 4, "4096": 2, "8192": 1}
    assert "Largest batch at 2,048 tokens: 4" in run("fit", *LLAMA, *pool, "--context", "2048")[1]


def test_three_capacities_have_their_names(run: Run) -> None:
    lines = run("fit", *LLAMA)[1].splitlines()
    for name in ("ideal", "paged", "logged"):
        assert any(line.split()[:1] == [name] for line in lines)
    assert any("counted: bf16" in line for line in lines)
    assert any("estimated" in line for line in lines)


def test_an_accelerator_of_ones_own(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[mine]\nflops = { bf16 = 1e14 }\nmemory_bytes = 40e9\nbandwidth = 1e12\n")
    found = document(run, "llama-3.1-8b", "--gpu", "mine", "--hardware", str(file))
    assert found["memory_bytes"] == 40e9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kv-pool-bytes", "lots"), "--kv-pool-bytes lots: give bytes"),
        (("--kv-pool-bytes", "-1"), "--kv-pool-bytes -1"),
        (("--weights-bytes", "5GiBs"), "--weights-bytes 5GiBs"),
        (("--kv", "int3"), "--kv int3: it must be one of"),
        (("--weights", "fp9"), "no storage format is called 'fp9'"),
        (("--gpu-memory-utilization", "1.5"), "--gpu-memory-utilization 1.5"),
        (("--gpu-memory-utilization", "nan"), "--gpu-memory-utilization nan"),
        (("--tp", "3"), "--tp 3"),
        (("--tp", "0"), "--tp 0"),
        (("--ep", "2"), "has no experts"),
        (("--pp", "33"), "--pp 33"),
        (("--max-model-len", "0"), "--max-model-len 0"),
        (("--block-size", "-16"), "--block-size -16"),
        (("--engine-version", "newest"), "--engine-version newest"),
        (("--engine", "tgi"), "tgi"),
        (("--context", "0"), "--context"),
        (("--json", "--plain"), "--json and --plain"),
        (("--gpu", "h1000"), "unknown accelerator"),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = run("fit", "llama-3.1-8b", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_length_beyond_the_models_window_is_a_warning(run) -> None:
    status, out, err = run("fit", "llama-3-8b", "--max-model-len", "9000")
    assert status == 0 and out
    assert err == (
        "twophase: warning: --max-model-len 9000 is beyond Llama-3-8B's context window of 8192: "
        "engines refuse it unless told otherwise\n"
    )
