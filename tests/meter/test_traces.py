"""Formats as published; the small samples are written by hand after their first rows."""

import json
import os
from pathlib import Path

import pytest

from twophase.errors import InputError
from twophase.meter.calibration import Calibration
from twophase.meter.traces import Recorded, Replayed, read_trace

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01.259930+00:00,2399,6
"""
BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,API log
"""
OWN = """arrival_s,input_tokens,output_tokens
0.5,2358,531
0.25,1034,769
"""
MOONCAKE = [
    {"timestamp": 0, "input_length": 1300, "output_length": 500, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 1100, "output_length": 490, "hash_ids": [0, 1, 9]},
]


@pytest.mark.parametrize(
    ("name", "text", "records"),
    [
        ("azure.csv", AZURE_2023, [Recorded(0.0, 4808, 10), Recorded(0.052, 3180, 8)]),
        ("azure24.csv", AZURE_2024, [Recorded(0.0, 2162, 5), Recorded(1.25, 2399, 6)]),
        ("burst.csv", BURST, [Recorded(0.0, 472, 18), Recorded(113.0, 417, 276)]),
        ("own.csv", OWN, [Recorded(0.0, 1034, 769), Recorded(0.25, 2358, 531)]),
        (
            "mooncake.jsonl",
            "\n".join(map(json.dumps, MOONCAKE)),
            [Recorded(0.0, 1300, 500, (0, 1, 2)), Recorded(3.0, 1100, 490, (0, 1, 9))],
        ),
    ],
)
def test_each_format(tmp_path: Path, name: str, text: str, records: list[Recorded]) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = read_trace(path)
    assert [(each.prompt_tokens, each.output_tokens, each.blocks) for each in found] == [
        (each.prompt_tokens, each.output_tokens, each.blocks) for each in records
    ]
    assert [each.at_s for each in found] == pytest.approx([each.at_s for each in records], abs=1e-6)
    faster = read_trace(path, speed=4.0)
    assert [each.at_s * 4 for each in faster] == pytest.approx([each.at_s for each in records], abs=1e-6)
    assert len(read_trace(path, most=1)) == 1


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("lengths.csv", "num_prefill_tokens,num_decode_tokens\n3,4\n", "no arrival times"),
        ("times.csv", "timestamp\n3\n", "no prompt and output tokens"),
        ("empty.csv", "arrival_s,input_tokens,output_tokens\n", "no request"),
        ("words.csv", "arrival_s,input_tokens,output_tokens\n1,two,3\n", "damaged"),
        ("broken.jsonl", "{", "damaged"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_trace(path)


def test_equal_blocks_are_equal_text_and_others_are_not() -> None:
    trace = (Recorded(0, 1300, 5, (0, 1, 2)), Recorded(1, 1100, 6, (0, 1, 9)))
    recipe = Replayed("s", Calibration(), trace)
    one, two = (recipe(number).turns[0] for number in range(2))
    assert (one.prompt_tokens, one.max_tokens) == (1300, 5)
    ours, others = one.text.split(), two.text.split()
    assert (len(ours), len(others)) == (1300, 1100)
    assert ours[:1024] == others[:1024]
    assert ours[1024:1100] != others[1024:1100]


def test_prompts_of_a_trace_without_blocks_are_unique() -> None:
    recipe = Replayed("s", Calibration(2.0, 10.0), (Recorded(0, 210, 5),) * 3)
    texts = [recipe(number).turns[0].text.split() for number in range(3)]
    assert [len(text) for text in texts] == [100] * 3
    assert len({text[0] for text in texts}) == 3


@pytest.mark.skipif("TWOPHASE_SHARED" not in os.environ, reason="needs the published traces")
def test_published_traces_have_their_published_statistics() -> None:
    folder = Path(os.environ["TWOPHASE_SHARED"], "data", "traces")
    known = json.loads((folder / "stats.json").read_text())
    for name, file in {
        "azure2023_code": "AzureLLMInferenceTrace_code.csv",
        "mooncake_conversation": "mooncake_conversation_trace.jsonl",
    }.items():
        trace = read_trace(folder / file)
        assert len(trace) == known[name]["n"]
        assert trace[-1].at_s == pytest.approx(known[name]["dur_s"], abs=0.1)
        mean = sum(each.prompt_tokens for each in trace) / len(trace)
        assert mean == pytest.approx(known[name]["inp"]["mean"], abs=0.06)
