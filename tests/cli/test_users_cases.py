"""Questions that users brought to public trackers, and the answers worked out, through the command line.

Named as in the collection that they come from: CAL-nn are of the calculator, FIT-nn of memory. GiB is 2^30.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GIB = 2**30
Ask = Callable[..., dict[str, Any]]
LLAMA = {"model_type": "llama", "vocab_size": 32000, "max_position_embeddings": 32768}


@pytest.fixture
def ask(run, tmp_path: Path) -> Ask:
    """The JSON answer of a verb on a model by name, or by the keys of its config."""

    def ask(verb: str, model: str | dict[str, Any], *options: str) -> dict[str, Any]:
        if isinstance(model, dict):
            (tmp_path / "config.json").write_text(json.dumps(model))
            model = str(tmp_path)
        status, out, err = run(verb, model, *options, "--json")
        assert status == 0, err
        answer: dict[str, Any] = json.loads(out)
        return answer

    return ask


def shape(hidden: int, layers: int, heads: int, kv_heads: int, d_ff: int, **more: Any) -> dict[str, Any]:
    return {
        **LLAMA,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": d_ff,
        **more,
    }


MISTRAL_SMALL = shape(5120, 40, 32, 8, 32768, head_dim=128)


@pytest.mark.parametrize(
    ("model", "bytes_"),
    [
        (MISTRAL_SMALL, 163_840),
        ("gpt-oss-20b", 49_152),
        ("gemma-3-12b", 48 * 2 * 8 * 256 * 2),
        ("qwen3-4b", 147_456),
        (shape(4096, 32, 32, 8, 14336, head_dim=None), 131_072),  # CAL-02
        ("qwen2.5-7b", 57_344),  # CAL-04
        ("deepseek-v3", 70_272),  # CAL-07
        ("kimi-k2", 70_272),
        ("gemma-7b", 458_752),  # FIT-03
    ],
)
def test_cal_01_head_dim_is_what_the_config_says(ask: Ask, model: Any, bytes_: int) -> None:
    assert ask("model", model)["kv_bytes_per_token"] == bytes_


def test_cal_02_no_heads_are_refused(run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(shape(4096, 32, 0, 8, 14336)))
    status, out, err = run("model", str(tmp_path))
    assert (status, out) == (2, "") and "num_attention_heads is 0" in err


def test_cal_03_a_decode_step_reads_key_value_heads(ask: Ask) -> None:
    one, none = (
        ask("phases", "llama-3-8b", "--contexts", tokens)["decode"][0]["bytes"] for tokens in ("8192", "1")
    )
    assert one - none == 8191 * 131_072  # 1.0 GiB, not the 4 of 32 heads


def test_cal_04_and_07_bytes_of_a_context(ask: Ask) -> None:
    qwen = ask("model", "qwen2.5-7b", "--contexts", "3072")
    assert qwen["kv_bytes_at"]["3072"] / GIB == pytest.approx(0.164, abs=5e-4)
    assert ask("model", "deepseek-v3", "--kv", "fp8")["kv_bytes_per_token"] == 35_136


def test_cal_09_only_full_layers_grow(ask: Ask) -> None:
    made = ask("model", "gpt-oss-20b", "--contexts", "131072")
    assert made["kv_bytes_per_token_unbounded"] * 131_072 == 3.0 * GIB
    assert made["kv_bytes_at"]["131072"] == 3.0 * GIB + 12 * 128 * 2048  # and the windows' 3 MiB


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [("qwen2.5-0.5b", 0.49e9, None), ("qwen2.5-1.5b", 1.54e9, None), ("mixtral-8x7b", 46.7e9, 12.9e9)],
)
def test_cal_11_parameters(ask: Ask, name: str, total: float, active: float | None) -> None:
    made = ask("model", name)["parameters"]
    assert made["total"] == pytest.approx(total, rel=0.01)
    assert made["active"] == pytest.approx(active or total, rel=0.01)
    if active is None:  # tied: the head is no second matrix
        assert made["total"] - made["embedding"] == pytest.approx(
            {"qwen2.5-0.5b": 0.36e9, "qwen2.5-1.5b": 1.31e9}[name], rel=0.01
        )


def test_cal_13_a_floor_beside_what_was_measured(ask: Ask) -> None:
    step = ask("phases", "llama-2-7b", "--gpu", "a100-80gb", "--contexts", "100")["decode"][0]
    assert step["floor_s"] == pytest.approx(6.48e-3, rel=0.01)  # 154 tokens/s; 104.9 were measured
    assert step["floor_s"] < 1 / 104.9


def test_cal_15_experts_that_a_batch_touches(ask: Ask) -> None:
    """E·(1 - (1 - k/E)^b) of 128 experts at 8 a token: 8, 51.6, 111.8, 128."""
    rows = ask("phases", "qwen3-30b-a3b", "--batch", "1,8,32,128", "--contexts", "1")["decode"]
    expert = 48 * 3 * 2048 * 768 * 2  # bytes of one, in all layers
    step = 49_152  # KV of the one cached token of a sequence
    read = [(row["bytes"] - row["batch"] * step) / expert for row in rows]
    assert [own - read[0] for own in read] == pytest.approx([0, 43.6, 103.8, 120.0], abs=0.1)


@pytest.mark.parametrize(
    ("model", "gpu", "options", "floor_ms", "measured_ms"),
    [
        ("llama-2-7b", "a100-80gb", [], 90.3, 133),
        ("llama-2-7b", "h100-sxm", ["--weights", "fp8", "--kv", "fp8"], 14.2, 36),
        ("llama-2-70b", "a100-80gb", ["--tp", "4"], 229.9, 377),
        ("llama-2-70b", "h100-sxm", ["--tp", "4", "--weights", "fp8", "--kv", "fp8"], 36.3, 109),
    ],
)
def test_cal_16_floors_of_ttft(
    ask: Ask, model: str, gpu: str, options: list[str], floor_ms: float, measured_ms: float
) -> None:
    """The worked floors give logits to all rows, as the textbook does, and so lie above the strict one."""
    row = ask("phases", model, "--gpu", gpu, "--prompts", "2048", *options)["prefill"][0]
    assert 1e3 * row["compute_s"] == pytest.approx(floor_ms, rel=0.05)
    assert row["floor_s"] < row["compute_s"] < measured_ms / 1e3


def test_cal_18_a_step_of_70b_on_one_h100(ask: Ask) -> None:
    step = ask("phases", "llama-3.3-70b", "--weights", "fp8", "--contexts", "1")["decode"][0]
    assert step["memory_s"] == pytest.approx(20.7e-3, rel=0.02)  # 48 tokens/s for one user, not 120
    assert step["floor_s"] > 1 / 65


def test_cal_21_two_devices_do_not_halve_a_small_step(ask: Ask) -> None:
    one, two = (
        ask("phases", "gpt-oss-120b", "--gpu", "a100-80gb", "--contexts", "1024", "--tp", tp)["decode"][0]
        for tp in ("1", "2")
    )
    assert one["communication_s"] == 0 < two["communication_s"]
    assert two["memory_s"] + two["communication_s"] > 0.55 * one["memory_s"]


def test_fit_01_and_02_pools_of_a_log(ask: Ask) -> None:
    options = ["--gpu", "h100-sxm", "--gpu-memory-utilization", "0.95", "--max-model-len", "8192"]
    given = ["--weights-bytes", "14.99GiB", "--activation-bytes", "1.89GiB", "--non-torch-bytes", "0.25GiB"]
    for more in (options, [*options, *given]):
        made = ask("fit", "llama-3.1-8b", *more)
        assert made["kv_pool_bytes"] / GIB == pytest.approx(58.11, rel=0.005)
        assert made["kv_tokens"] == pytest.approx(476_016, rel=0.005)
        assert made["max_concurrency"] == pytest.approx(58.11, rel=0.005)
    assert ask("fit", "llama-3.1-8b", *options, "--kv", "fp8")["kv_tokens"] == pytest.approx(
        952_032, rel=0.005
    )
    wide = ["--weights", "float32", "--kv", "float32", "--kv-pool-bytes", "42.80GiB"]
    made = ask("fit", "llama-3.1-8b", *options, *wide)
    assert made["weights_bytes"] / GIB == pytest.approx(29.98, rel=0.005)
    assert made["kv_tokens"] == pytest.approx(175_296, rel=0.001)


@pytest.mark.parametrize(
    ("model", "pool", "options", "tokens", "concurrency"),
    [
        ("gemma-7b", "55.44GiB", ["--max-model-len", "8192"], 129_760, 15.84),
        ("deepseek-v3", "41.60GiB", ["--tp", "8", "--max-model-len", "8192"], 635_648, 77.59),
        (
            "kimi-k2",
            "160.63GiB",
            ["--tp", "8", "--engine", "sglang", "--max-model-len", "8192"],
            2_454_421,
            None,
        ),
        ("llama-2-7b", "69524783104", ["--engine", "trtllm", "--max-model-len", "4096"], 132_608, None),
    ],
)
def test_fit_03_07_26_tokens_of_a_pool(
    ask: Ask, model: str, pool: str, options: list[str], tokens: int, concurrency: float | None
) -> None:
    made = ask("fit", model, "--kv-pool-bytes", pool, *options)
    assert made["kv_tokens"] == pytest.approx(tokens, rel=0.001)
    if concurrency:
        assert made["max_concurrency"] == pytest.approx(concurrency, rel=0.001)


def test_fit_08_key_value_heads_are_replicated(ask: Ask) -> None:
    tokens = [
        ask("fit", "qwen3-30b-a3b", "--tp", tp, "--kv-pool-bytes", "10GiB", "--max-model-len", "8192")[
            "kv_tokens"
        ]
        for tp in ("4", "8")
    ]
    assert tokens == pytest.approx([10 * GIB / 24_576] * 2, abs=16)  # one head each, not half of one


@pytest.mark.parametrize(
    ("model", "tp", "says"),
    [
        ("llama-2-13b", "3", "40 heads"),
        (shape(6656, 60, 52, 52, 17920), "3", "52 heads"),
        ("llama-2-70b", "3", "64 heads"),
        ("qwen3-14b", "5", "8 key-value heads"),
    ],
)
def test_fit_09_plans_that_engines_refuse(run, tmp_path: Path, model: Any, tp: str, says: str) -> None:
    if isinstance(model, dict):
        (tmp_path / "config.json").write_text(json.dumps(model))
        model = str(tmp_path)
    status, out, err = run("fit", model, "--tp", tp)
    assert (status, out) == (2, "") and says in err and "2, 4" in err


def test_fit_11_and_28_no_room(ask: Ask) -> None:
    options = ["--weights", "fp8", "--gpu", "h100-sxm", "--max-model-len", "16000"]
    one = ask("fit", "llama-3.3-70b", *options, "--engine-version", "0.11")
    assert not one["fits"] and one["kv_pool_bytes"] / GIB == pytest.approx(-1.44, abs=0.1)
    assert "--tp 2" in [each["flags"] for each in one["needs"]]
    two = ask("fit", "llama-3.3-70b", *options, "--engine-version", "0.11", "--tp", "2")
    assert two["fits"] and two["kv_pool_bytes"] / GIB == pytest.approx(32.0, rel=0.01)
    assert not ask("fit", "llama-3.3-70b", *options, "--gpu-memory-utilization", "0.95")["fits"]


def test_fit_12_the_longest_that_starts(ask: Ask) -> None:
    options = ["--weights-bytes", "61.03GiB", "--activation-bytes", "5.64GiB", "--non-torch-bytes", "0.14GiB"]
    short, long = (
        ask("fit", "qwen3-32b", "--gpu", "h100-sxm", "--max-model-len", tokens, *options)
        for tokens in ("16000", "32000")
    )
    assert short["fits"] and short["max_concurrency"] == pytest.approx(1.13, abs=0.02)
    assert not long["fits"] and long["sequence_bytes"] / GIB == pytest.approx(7.81, abs=0.01)
    assert long["longest_max_model_len"] == pytest.approx(18_227, rel=0.005)


def test_fit_15_versions_of_an_engine(ask: Ask) -> None:
    found = [
        ask("fit", "qwen3-14b", "--gpu-memory-utilization", "0.95", "--max-model-len", "8192", *version)
        for version in (["--engine-version", "0.16"], ["--engine-version", "0.17"])
    ]
    assert [each["max_concurrency"] for each in found] == pytest.approx([33.55, 36.27], rel=0.01)
    assert all(each["reserve_source"] for each in found)


def test_fit_17_two_devices_keep_buffers_of_nccl(ask: Ask) -> None:
    terms = [
        {term["name"]: term["bytes"] / GIB for term in ask("fit", "llama-3.1-8b", "--tp", tp)["terms"]}
        for tp in ("1", "2", "4")
    ]
    assert [each["non-torch"] for each in terms] == pytest.approx([0.25, 2.07, 2.13], rel=0.05)


def test_fit_22_a_hybrids_pages(ask: Ask) -> None:
    """16 of 64 layers keep keys and values: 16 KiB a token on each of two devices in FP8; 262,144 fit."""
    hybrid = ["--tp", "2", "--kv", "fp8", "--kv-pool-bytes", "4.99GiB", "--max-model-len", "262144"]
    made = ask("fit", "qwen3.6-27b", *hybrid)
    assert made["fits"] and made["kv_tokens"] == pytest.approx(302_921, rel=0.05)
