"""Formats as published; the small samples are written by hand after their first rows."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from twophase.errors import InputError
from twophase.workload.traces import read_lengths, read_trace, spread_out
from twophase.workload.workload import Blocks

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
BURST_SESSIONS = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Log Type
5,1,0.8,ChatGPT,472,18,Conversation log
118,1,9.5,GPT-4,417,276,API log
"""
OWN = """arrival_s,input_tokens,output_tokens
0.5,2358,531
0.25,1034,769
"""
MOONCAKE = [
    {"timestamp": 0, "input_length": 1300, "output_length": 500, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 1100, "output_length": 490, "hash_ids": [0, 1, 9]},
]
QWEN = [
    {
        **{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.1, "input_length": 35},
        **{"output_length": 4, "type": "text", "turn": 1, "hash_ids": [1089, 1090, 1091]},
    }
]


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("azure.csv", AZURE_2023, [(0.0, 4808, 10), (0.052, 3180, 8)]),
        ("azure24.csv", AZURE_2024, [(0.0, 2162, 5), (1.25, 2399, 6)]),
        ("burst.csv", BURST, [(0.0, 472, 18), (113.0, 417, 276)]),
        ("sessions.csv", BURST_SESSIONS, [(0.0, 472, 18), (113.0, 417, 276)]),
        ("own.csv", OWN, [(0.0, 1034, 769), (0.25, 2358, 531)]),
        ("mooncake.jsonl", "\n".join(map(json.dumps, MOONCAKE)), [(0.0, 1300, 500), (3.0, 1100, 490)]),
        ("qwen.jsonl", "\n".join(map(json.dumps, QWEN)), [(0.0, 35, 4)]),
    ],
)
def test_each_format(tmp_path: Path, name: str, text: str, rows: list[tuple[float, int, int]]) -> None:
    path = tmp_path / name
    path.write_text(text)
    found, faster = read_trace(path), read_trace(path, speed=4.0)
    assert found.prompt_tokens.tolist() == [each[1] for each in rows]
    assert found.output_tokens.tolist() == [each[2] for each in rows]
    assert found.arrival_s.tolist() == pytest.approx([each[0] for each in rows], abs=1e-6)
    assert (faster.arrival_s * 4).tolist() == pytest.approx([each[0] for each in rows], abs=1e-6)
    assert len(read_trace(path, most=1)) == 1


def test_parquet_tells_the_same_as_csv(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    rows = {"arrival_s": [0.5, 0.25], "prompt_tokens": [7, 8], "output_tokens": [2, 3]}
    polars.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    found = read_trace(tmp_path / "t.parquet")
    assert (found.arrival_s.tolist(), found.prompt_tokens.tolist()) == ([0, 0.25], [8, 7])


def test_hash_ids_go_with_their_requests_and_know_their_size(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(map(json.dumps, reversed(MOONCAKE))))
    content = read_trace(path).content
    assert isinstance(content, Blocks)
    assert (content.ids.tolist(), content.starts.tolist()) == ([0, 1, 2, 0, 1, 9], [0, 3, 6])
    assert content.tokens == 512
    path.write_text(json.dumps(QWEN[0]))
    assert isinstance(content := read_trace(path).content, Blocks)
    assert content.tokens == 16


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("lengths.csv", "num_prefill_tokens,num_decode_tokens\n3,4\n", "no arrival times"),
        ("times.csv", "timestamp\n3\n", "no prompt and output tokens"),
        ("empty.csv", "arrival_s,input_tokens,output_tokens\n", "no request"),
        ("words.csv", "arrival_s,input_tokens,output_tokens\n0,1,1\n1,two,3\n", "line 3.*two"),
        ("short.csv", "arrival_s,input_tokens,output_tokens\n0,1,1\n\n1,2\n", "line 4"),
        ("minus.csv", "arrival_s,input_tokens,output_tokens\n0,-1,1\n", "line 2"),
        ("endless.csv", "arrival_s,input_tokens,output_tokens\ninf,1,1\n", "line 2"),
        ("date.csv", AZURE_2023 + "2023-13-16 18:17:04.03,3180,8\n", "line 4"),
        ("broken.jsonl", "\n".join([json.dumps(MOONCAKE[0]), "{"]), "line 2"),
        ("number.jsonl", "\n".join([json.dumps(MOONCAKE[0]), "7"]), "line 2"),
        ("truncated.jsonl", '{"arrival_s":0,', "line 1: each line must be a JSON object"),
        ("array.json", "[\n" + json.dumps(MOONCAKE[0]) + "\n]", "line 1: each line must be a JSON object"),
        ("huge.jsonl", json.dumps({**MOONCAKE[0], "input_length": 10**400}), "line 1"),
        ("wide.csv", f"arrival_s,input_tokens,output_tokens\n0,{'1' * 200_000},1\n", "line 2: field larger"),
        ("late.csv", "arrival_s,input_tokens,output_tokens\n1e15,1,1\n0,1,1\n", "line 2: .* a load may last"),
        ("before.csv", "arrival_s,input_tokens,output_tokens\n0,1,1\n-5,2,3\n", "before.csv, line 3.*-5"),
    ],
)
def test_what_is_no_trace_is_refused_by_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_trace(path)


@pytest.mark.parametrize("ids", ["0,1", [0, "1"], [0, 1.5], [0, True], [0, None], [[0]], [2**63], 7, {}])
def test_hash_ids_that_are_no_whole_numbers_are_refused_by_line(tmp_path: Path, ids: object) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(map(json.dumps, [MOONCAKE[0], {**MOONCAKE[1], "hash_ids": ids}])))
    with pytest.raises(InputError, match=r"m\.jsonl, line 2: hash_ids .*: a list of whole numbers"):
        read_trace(path)
    found = read_trace(path, skip_bad=True)
    assert found.notes == ("1 bad line is skipped: 2",)
    assert isinstance(found.content, Blocks)
    assert found.content.ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("lacking", [{"hash_ids": None}, {"hash_ids": []}, {}])
def test_a_request_may_lack_hash_ids(tmp_path: Path, lacking: dict[str, object]) -> None:
    path = tmp_path / "m.jsonl"
    bare = {name: value for name, value in MOONCAKE[1].items() if name != "hash_ids"}
    path.write_text("\n".join(map(json.dumps, [MOONCAKE[0], {**bare, **lacking}])))
    content = read_trace(path).content
    assert isinstance(content, Blocks)
    assert content.starts.tolist() == [0, 3, 3]


def test_bad_lines_are_skipped_and_counted_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,1,1\n1,two,3\nx,2,3\n4,5,6\n-1,2,3\n5,0,6\n")
    found = read_trace(path, skip_bad=True)
    assert found.prompt_tokens.tolist() == [1, 5]
    assert found.arrival_s.tolist() == [0, 4]
    assert found.notes == (
        "3 bad lines are skipped: 3, 4, 6",
        "1 request without prompt or answer is left out",
    )


def test_lengths_alone_keep_together(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n3772,54\n2015,156\n")
    prompts, outputs = read_lengths(path)
    assert list(zip(prompts.tolist(), outputs.tolist(), strict=True)) == [(3772, 54), (2015, 156)]


def test_heaps_of_a_coarse_clock_are_spread_within_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "heaps.csv"
    rows = [f"{3 * heap},{1 + heap},1" for heap in range(10) for _ in range(8)]
    path.write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows]))
    heaped = read_trace(path)
    assert "steps of about 3 s" in heaped.notes[0]
    spread = spread_out(heaped, "s")
    assert len(np.unique(spread.arrival_s)) == 80
    assert np.all(np.diff(spread.arrival_s) >= 0)
    assert np.array_equal(spread.prompt_tokens, heaped.prompt_tokens)
    first = spread.arrival_s - heaped.arrival_s  # all moved by one and the same start
    assert first.max() - first.min() < 3
    assert np.array_equal(spread_out(heaped, "s").arrival_s, spread.arrival_s)


@pytest.mark.skipif("TWOPHASE_SHARED" not in os.environ, reason="needs the published traces")
def test_published_traces_have_their_published_statistics() -> None:
    folder = Path(os.environ["TWOPHASE_SHARED"], "data", "traces")
    known = json.loads((folder / "stats.json").read_text())
    for name, file in {
        "azure2023_code": "AzureLLMInferenceTrace_code.csv",
        "azure2023_conv": "AzureLLMInferenceTrace_conv.csv",
        "mooncake_conversation": "mooncake_conversation_trace.jsonl",
    }.items():
        trace = read_trace(folder / file)
        assert len(trace) == known[name]["n"]
        assert trace.arrival_s[-1] == pytest.approx(known[name]["dur_s"], abs=0.1)
        assert trace.prompt_tokens.mean() == pytest.approx(known[name]["inp"]["mean"], abs=0.06)
        gaps = np.diff(trace.arrival_s)
        assert gaps.std() / gaps.mean() == pytest.approx(known[name]["cv"], abs=0.02)


def test_times_of_day_are_brought_to_utc(tmp_path: Path) -> None:
    """Midnight in Paris comes two hours before that of London in summer (written Z), five before Brazil's."""
    path = tmp_path / "zones.csv"
    times = ("2024-05-10 03:00:00+0300", "2024-05-10T00:00:00Z", "2024-05-10 00:00:00+02:00")
    times += ("2024-05-10 00:00:00.5-03:00", "2024-05-10 00:00:01")
    rows = "\n".join(f"{each},{number},1" for number, each in enumerate(times, 1))
    path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}\n")
    found = read_trace(path)
    assert found.prompt_tokens.tolist() == [3, 1, 2, 5, 4]
    assert found.arrival_s.tolist() == pytest.approx([0, 7200, 7200, 7201, 18000.5])


@pytest.mark.parametrize("offset", ["+25:99", "-2400", "+05:60"])
def test_no_clock_is_so_far_from_utc(tmp_path: Path, offset: str) -> None:
    path = tmp_path / "zones.csv"
    times = f"2024-05-10 00:00:00+14:00,1,1\n2024-05-10 00:00:00{offset},2,1\n"
    path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{times}")
    with pytest.raises(InputError, match=f"line 3: timestamp .*{offset[1:]}"):
        read_trace(path)
    assert read_trace(path, skip_bad=True).prompt_tokens.tolist() == [1]


def test_lengths_need_no_times(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n?,10,20\n-4,11,21\n")
    assert [each.tolist() for each in read_lengths(path)] == [[10, 11], [20, 21]]
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,?,20\n")
    with pytest.raises(InputError, match=r"line 2: prompt_tokens '\?', output_tokens '20': two counts"):
        read_lengths(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gzip.compress(AZURE_2023.encode()), "is compressed: unpack it"),
        (AZURE_2023.encode("utf-16"), "UTF-16 text: save it as UTF-8"),
        (b"arrival_s,input_tokens,output_tokens\n0,\xff,1\n", "no UTF-8 text"),
    ],
)
def test_what_is_no_text_is_said(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_trace(path)


def test_a_folder_without_a_run_and_a_name_too_long_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"directory without requests\.parquet"):
        read_trace(tmp_path)
    for end in ("", ".parquet"):
        with pytest.raises(InputError, match=r"File name too long|is not there"):
            read_trace(Path("long" * 100 + end))
