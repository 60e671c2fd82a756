"""Every engine's pages give the known truth; what an engine can't tell is None, never a guess."""

import json
import os
from pathlib import Path

import pytest
from counter_pages import EXPECTED, PAGES, of_engine, page, reading, stored

from twophase.counters.engines import ENGINES, recognised
from twophase.counters.engines.table import COUNTERS, GAUGES, HISTOGRAMS
from twophase.counters.page import read_page
from twophase.counters.reading import Beside, Reading, read_pair
from twophase.errors import InputError

SHARED = os.environ.get("TWOPHASE_SHARED")
# llama.cpp tells no requests, so that first tokens can't be taken from the tokens that decode made: 600 of
# 150,000. Its page rounds 3,316.68 slot-seconds to a decimal, `expected.json` the batch to four.
ROUNDED = {("llamacpp", "tpot_mean_s"): 0.0041, ("llamacpp", "mean_running_decode"): 1e-5}


def holds(name: str, found: Reading) -> None:
    for key, value in EXPECTED[name].items():
        own = getattr(found.picture, key)
        if value is None:
            assert own is None, (key, own)
        else:
            assert own == pytest.approx(value, rel=ROUNDED.get((name, key), 1e-9)), key


@pytest.mark.parametrize("name", ["vllm", "sglang", "tgi", "llamacpp", "lmdeploy", "dynamo"])
def test_the_known_truth(name: str) -> None:
    found = of_engine(name)
    assert found.picture.engine == name
    holds(name, found)


def test_sglang_without_its_device_timer() -> None:
    first, second = (
        "\n".join(line for line in each.splitlines() if "forward_execution" not in line) + "\n"
        for each in ((PAGES / f"sglang_t{at}.txt").read_text() for at in (0, 1))
    )
    found = reading(first, second)
    holds("sglang_notimer", found)
    assert any("SGLANG_ENABLE_METRICS_DEVICE_TIMER=1" in each for each in found.missing)
    assert found.shares[0].method == "interference"


TRTLLM = """# TYPE {0}prompt_tokens_total counter
{0}prompt_tokens_total{{{1}}} {2}
{0}prompt_cached_tokens_total{{{1}}} {3}
{0}generation_tokens_total{{{1}}} {4}
{0}request_success_total{{{1},finished_reason="stop"}} {5}
{0}time_to_first_token_seconds_count{{{1}}} {5}
{0}time_to_first_token_seconds_sum{{{1}}} {6}
{0}time_per_output_token_seconds_count{{{1}}} {5}
{0}time_per_output_token_seconds_sum{{{1}}} {7}
{0}request_queue_time_seconds_count{{{1}}} {5}
{0}request_queue_time_seconds_sum{{{1}}} {8}
{0}request_decode_time_seconds_count{{{1}}} {5}
{0}request_decode_time_seconds_sum{{{1}}} {9}
"""
BEFORE = (9_000_000, 2_000_000, 1_300_000, 5_000, 2_500.0, 111.0, 500.0, 29_000.0)
AFTER = (10_200_000, 2_480_000, 1_450_000, 5_600, 2_812.0, 125.0, 620.0, 32_316.68)


@pytest.mark.parametrize(
    ("prefix", "labels", "model"),
    [
        ("trtllm_", 'model_name="m",engine_type="trtllm"', "m"),
        ("", 'model_name="undefined",engine_type="undefined"', ""),
        ("pytrtllm:", 'model_name="deepseek-ai/DeepSeek-V3"', "deepseek-ai/DeepSeek-V3"),
    ],
)
def test_tensorrt_llm_with_and_without_its_prefix(prefix: str, labels: str, model: str) -> None:
    found = reading(*(TRTLLM.format(prefix, labels, *values) for values in (BEFORE, AFTER)))
    assert (found.picture.engine, found.picture.model) == ("trtllm", model)
    holds("trtllm", found)


def test_vllms_older_names() -> None:
    """v0 has neither tokens by source nor the engine label: the cache's own counters tell the share."""
    old = (PAGES / "vllm_legacy_v0_t1.txt").read_text()
    before = old
    for new, was in (
        ("prompt_tokens_total{", "10200000.0 9000000.0"),
        ("generation_tokens_total{", "1450000.0 1300000.0"),
        ("prefix_cache_queries_total{", "10200000.0 9000000.0"),
        ("prefix_cache_hits_total{", "2480000.0 2000000.0"),
        ("request_prompt_tokens_count{", "5600.0 5000.0"),
        ("time_to_first_token_seconds_count{", "5600.0 5000.0"),
        ("time_to_first_token_seconds_sum{", "2812.0 2500.0"),
        ("request_queue_time_seconds_sum{", "620.0 500.0"),
        ("request_queue_time_seconds_count{", "5600.0 5000.0"),
        ("time_per_output_token_seconds_count{", "1444400.0 1295000.0"),
        ("time_per_output_token_seconds_sum{", "32316.68 29000.0"),
    ):
        after, earlier = was.split()
        before = "\n".join(
            line.replace(after, earlier) if line.startswith(f"vllm:{new}") else line
            for line in before.splitlines()
        )
    found = reading(f"{before}\n", old)
    holds("vllm", found)
    assert found.picture.kv_usage == pytest.approx(0.62)


def test_our_own_page_under_vllms_prefix() -> None:
    there = {"vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:phase_floor_seconds_total"}
    assert [each.name for each in recognised(there)] == ["twophase"]
    assert recognised(there)[0].prefixes == ("vllm:",)
    names = [(what, phase) for what in ("seconds", "floor_seconds") for phase in ("prefill", "decode")]

    def own(*values: float) -> str:
        rows = zip(names, values, strict=True)
        return "".join(
            f'vllm:phase_{what}_total{{phase="{phase}"}} {value}\n' for (what, phase), value in rows
        )

    found = reading(own(1, 2, 0.5, 1), own(4, 11, 2, 7), 20).picture
    assert found.engine == "twophase"
    assert (found.prefill_gpu_s, found.decode_gpu_s, found.gpu_busy) == (3, 9, 0.6)
    assert (found.prefill_floor_s, found.decode_floor_s) == (1.5, 6)
    assert found.prefill_share_of_busy == 0.25


def test_names_with_other_prefixes() -> None:
    assert recognised({"ray_vllm_prompt_tokens_total"})[0].name == "vllm"
    assert recognised({"vllm_prompt_tokens_total"})[0].prefixes == ("vllm_",)  # OpenMetrics without colons
    assert recognised({"mine_input_sequence_tokens_sum", "mine_output_tokens_total"})[0].name == "dynamo"
    assert recognised({"prompt_tokens_total", "process_cpu_seconds_total"}) == []


def test_a_page_of_two_engines() -> None:
    """An adapter adds TGI's names to vLLM's page, with a broken label: vLLM's count."""
    adapter = "tgi_batch_inference_duration_bucket{{le=\"0.02\",method=\"{{'method': 'prefill'}}\"}} {0}\n"
    extra = adapter + "tgi_request_success {0}\n"
    first, second = ((PAGES / f"vllm_t{at}.txt").read_text() for at in (0, 1))
    found = reading(first + extra.format(1), second + extra.format(2))
    holds("vllm", found)
    assert any("names of TGI" in note for note in found.picture.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'vllm:current_qps{server="x"} 1\nvllm:num_requests_running{server="x"} 2\n',
            "production-stack's router",
        ),
        ("sgl_router_requests_total 1\n", "SGLang's router"),
        ("inference_pool_ready_pods 2\n", "endpoint picker"),
        ("litellm_total_tokens 2\n", "LiteLLM"),
        ("dynamo_component_requests_total 42\n", "a component of Dynamo"),
        ("python_gc_objects_collected_total 1\n", "no counters of an engine that is known"),
    ],
)
def test_what_is_no_engines_page(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        reading(text, text)
    assert said in str(refused.value)


def test_pages_of_two_servers() -> None:
    with pytest.raises(InputError, match=r"page of vLLM, .* of SGLang"):
        read_pair(stored("vllm_t0.txt"), stored("sglang_t1.txt"), 300, Beside())


def test_tables_name_known_quantities() -> None:
    for engine in ENGINES:
        assert set(engine.counters) <= set(COUNTERS), engine.name
        assert set(engine.histograms) <= set(HISTOGRAMS), engine.name
        assert set(engine.gauges) <= set(GAUGES), engine.name


@pytest.mark.skipif(SHARED is None, reason="TWOPHASE_SHARED names the folder of whole pages")
def test_the_whole_pages() -> None:
    folder = Path(SHARED or "") / "data" / "metrics"
    truth = json.loads((folder / "expected.json").read_text())
    assert truth == EXPECTED
    seen = 0
    for name in truth:
        pages = [folder / f"{name}_t{at}.txt" for at in (0, 1)]
        if all(each.exists() for each in pages):
            (found,) = read_pair(*(read_page(each.read_bytes(), each.name) for each in pages), 300, Beside())
            holds(name, found)
            seen += 1
    assert seen >= 6
    for each in folder.glob("*.txt"):
        assert page(each.read_text()).page is not None
