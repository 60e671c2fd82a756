"""The suite: that its streams are what they say, that our meter passes, and that a wrong meter does not."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from twophase.errors import InputError
from twophase.meter.conformance.asking import ask_own, read_answer, read_command
from twophase.meter.conformance.judging import Verdict, faults
from twophase.meter.conformance.scenario import JSON, Measured, Scenario
from twophase.meter.conformance.streams import SCENARIOS, chosen
from twophase.meter.conformance.suite import run_command, run_own
from twophase.meter.conformance.table import listing, table, to_json
from twophase.meter.conformance.wording import Wording
from twophase.meter.exchange import Pool, run
from twophase.meter.records import Endpoint

NAMES = [
    "plain",
    "role_first_empty",
    "role_first_null",
    "role_first_nocontent",
    "azure_first_nochoices",
    "reasoning_content",
    "reasoning",
    "reasoning_only",
    "tool_calls",
    "no_usage",
    "usage_on_finish_chunk",
    "usage_null_each",
    "usage_continuous",
    "no_done",
    "comments",
    "comment_same_event",
    "crlf",
    "nospace",
    "event_field",
    "multiline_data",
    "split_utf8",
    "split_json",
    "u2028",
    "done_in_content",
    "empty_text_tokens",
    "first_token_empty",
    "usage_late_500ms",
    "finish_late_500ms",
    "delta_null",
    "multi_token_4",
    "crlf_coalesced",
    "coalesced_pairs",
    "early_eos_5",
    "early_eos_no_usage",
    "stall_mid",
    "hidden_tokens",
    "error_mid",
    "error_first",
    "error_event",
    "cut_mid",
    "eof_mid",
    "json_200_error",
    "zero_tokens",
    "http429",
    "http500",
]
TRIES = 3  # a machine that stands still for a moment is no meter's fault

ENDPOINTS: tuple[Endpoint, ...] = ("chat", "completions")
RIGHT = Measured("finished", 0.1, 0.02, 16)


def test_all_forty_five_are_there() -> None:
    assert [each.name for each in SCENARIOS] == NAMES
    assert len(NAMES) == 45
    assert len(listing(SCENARIOS).splitlines()) == 45


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_steps_come_in_order(scenario: Scenario) -> None:
    for endpoint in ENDPOINTS:
        steps = scenario.steps(Wording(endpoint))
        times = [at_s for at_s, _ in steps]
        assert times == sorted(times)
        assert (len(steps) == 1) == (scenario.content_type == JSON)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_our_meter_passes_all(endpoint: Endpoint) -> None:
    verdicts: dict[str, Verdict] = {}
    left: Sequence[Scenario] = SCENARIOS
    for _ in range(TRIES):
        played = run(partial(run_own, left, endpoint, 10.0))
        verdicts |= {each.scenario.name: each for each in played}
        left = [each.scenario for each in verdicts.values() if not each.passed]
    assert [(each.name, verdicts[each.name].faults) for each in left] == []
    firsts = {each.scenario.name: each.scenario.truth.outcomes[0] for each in verdicts.values()}
    said = {name: each.measured.outcome for name, each in verdicts.items() if each.measured}
    assert said == firsts  # ours has the very word, where others pass with one like it


@pytest.mark.parametrize(
    ("name", "said", "wrong"),
    [
        ("plain", RIGHT, []),
        ("plain", replace(RIGHT, ttft_s=0.11), []),
        ("plain", replace(RIGHT, ttft_s=0.122), ["ttft 122.0 ms, not 100.0"]),
        ("plain", replace(RIGHT, tpot_s=0.0187), ["tpot 18.7 ms, not 20.0"]),
        ("plain", replace(RIGHT, ttft_s=None, tpot_s=None), ["no ttft", "no tpot"]),
        ("plain", replace(RIGHT, ttft_s=float("nan")), ["ttft nan ms, not 100.0"]),
        ("plain", replace(RIGHT, output_tokens=17), ["17 tokens, not 16"]),
        ("plain", replace(RIGHT, output_tokens=None), ["no output_tokens"]),
        ("plain", replace(RIGHT, outcome="ok"), ["outcome ok, not finished"]),
        ("multi_token_4", replace(RIGHT, ttft_s=0.16), []),
        ("multi_token_4", replace(RIGHT, ttft_s=0.16, tpot_s=0.016), ["tpot 16.0 ms, not 20.0"]),
        ("hidden_tokens", replace(RIGHT, output_tokens=80), []),
        ("hidden_tokens", replace(RIGHT, tpot_s=0.0038), ["tpot 3.8 ms, not 20.0"]),
        ("stall_mid", replace(RIGHT, tpot_s=0.8 / 15), []),
        ("eof_mid", RIGHT, ["outcome finished, not truncated"]),
        ("eof_mid", Measured("truncated", None, None, None), []),
        ("http429", Measured("failed", None, None, None), []),
        ("zero_tokens", Measured("finished", None, None, 0), ["outcome finished, not empty"]),
    ],
)
def test_judgement(name: str, said: Measured, wrong: list[str]) -> None:
    [scenario] = chosen([name])
    assert faults(scenario, said) == wrong


def test_a_meter_is_not_blamed_for_a_server_that_was_late() -> None:
    [scenario] = chosen(["plain"])
    late = replace(RIGHT, ttft_s=0.125)
    assert faults(scenario, late) and not faults(scenario, late, late_s=0.02)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (b'{"outcome":"finished","ttft_s":0.1,"tpot_s":0.02,"output_tokens":16}', RIGHT),
        (b'{\n "outcome": "finished", "ttft_s": 0.1,\n "tpot_s": 0.02, "output_tokens": 16}\n', RIGHT),
        (
            b'loading\n{"outcome":"x"}\n{"outcome":"failed","ttft_s":null}\n{}\n',
            Measured("failed", None, None, None),
        ),
        (b'{"outcome":"failed","ttft_s":"0.1","tpot_s":true}', Measured("failed", None, None, None)),
        (b"[1]\nnothing", None),
        (b"\xff", None),
    ],
)
def test_a_commands_answer(out: bytes, said: Measured | None) -> None:
    assert read_answer(out) == said


def test_a_command_in_one_line_or_in_words() -> None:
    assert read_command(["meter --at {url} 'a b'"]) == read_command(["meter", "--at", "{url}", "a b"])
    for words in (["meter"], ["meter", "url"]):
        with pytest.raises(InputError, match=r"\{url\}"):
            read_command(words)


def test_an_unknown_name_is_told_with_its_likes() -> None:
    with pytest.raises(InputError, match="did you mean plain"):
        chosen(["plian"])


METER = """
import json, sys, urllib.request
try:
    reply = urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/v1/chat/completions", b"{}"))
    print("read", len(reply.read()), "bytes")
    print(json.dumps({"outcome": "finished", "ttft_s": 0.1, "tpot_s": 0.02, "output_tokens": 16}))
except OSError as error:
    print(json.dumps({"outcome": "failed"}))
"""


def test_another_meter_is_run_once_a_scenario(tmp_path: Path) -> None:
    """One that says the same of every stream: right of some, wrong of others, and silent of none."""
    meter = tmp_path / "meter.py"
    meter.write_text(METER)
    scenarios = chosen(["plain", "eof_mid", "json_200_error", "http429"])
    command = [sys.executable, str(meter), "{url}"]
    verdicts = run(lambda: run_command(command, scenarios, 20.0))
    assert [each.passed for each in verdicts] == [True, False, False, True]
    said = json.loads(to_json(verdicts))
    assert (said["passed"], said["scenarios_run"]) == (2, 4)
    shown = table(verdicts)
    assert "2/4 right" in shown and "WRONG: outcome finished, not truncated" in shown


def test_commands_that_say_nothing() -> None:
    scenarios = chosen(["http500"])
    silent = [sys.executable, "-c", "import sys; print('no', file=sys.stderr)", "{url}"]
    [verdict] = run(lambda: run_command(silent, scenarios, 20.0))
    assert verdict.faults == ("no JSON object with an outcome on its stdout; no",)
    slow = [sys.executable, "-c", "import time; time.sleep(60)", "{url}"]
    [verdict] = run(lambda: run_command(slow, scenarios, 0.5))
    assert verdict.faults == ("the command took longer than 0.5 s",)
    with pytest.raises(InputError, match="can't be run"):
        run(lambda: run_command(["no/such/meter", "{url}"], scenarios, 0.5))


def test_the_verb(tmp_path: Path) -> None:
    verb = tmp_path / "verb.py"
    verb.write_text(
        "from twophase.cli.conformance import conformance\nimport typer\ntyper.run(conformance)\n"
    )

    def said(*words: str) -> str:
        return subprocess.run(
            [sys.executable, verb, *words], capture_output=True, text=True, check=False
        ).stdout

    assert len(said("--list").splitlines()) == 45
    ours = f"{sys.executable} {verb} --measure {{url}}"
    assert json.loads(said("--only", "eof_mid", "--json", ours))["passed"] == 1


# The same streams by another hand, where the folder of shared fakes is at hand.

SHARED = os.environ.get("TWOPHASE_SHARED")
ENDS = {"error_mid": "failed", "error_first": "failed", "json_200_error": "failed", "http500": "failed"}
ENDS |= {"cut_mid": "truncated", "eof_mid": "truncated", "http429": "rejected"}
FIRSTS_S = {"multi_token_4": 0.16, "coalesced_pairs": 0.12}
TOKENS = {"early_eos_5": 5, "early_eos_no_usage": 5, "hidden_tokens": 80}


def fakes() -> ModuleType:
    where = Path(SHARED or "") / "fakes" / "awkward_streams.py"
    spec = importlib.util.spec_from_file_location("awkward_streams", where)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_right(name: str, said: Measured) -> bool:
    if said.outcome != "finished" or name in ENDS:
        return said.outcome == ENDS.get(name)
    return (
        said.output_tokens == TOKENS.get(name, 16)
        and said.ttft_s == pytest.approx(FIRSTS_S.get(name, 0.1), abs=0.02)
        and said.tpot_s == pytest.approx(0.8 / 15 if name == "stall_mid" else 0.02, rel=0.05)
    )


@pytest.mark.skipif(SHARED is None, reason="TWOPHASE_SHARED names no folder")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_awkward_streams_of_another_hand(endpoint: Endpoint) -> None:
    module = fakes()

    async def main() -> dict[str, Measured]:
        server = await asyncio.start_server(module.handle, "127.0.0.1", 0, backlog=512)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/S"
        pool = Pool()

        async def ask(number: int, name: str) -> Measured:
            await asyncio.sleep(0.04 * number)
            return await ask_own(pool, f"{url}/{name}", endpoint, 10.0)

        said = await asyncio.gather(*(ask(number, name) for number, name in enumerate(module.S)))
        await pool.close()
        server.close()
        await asyncio.sleep(0.05)
        return dict(zip(module.S, said, strict=True))

    wrong: list[str] = []
    for _ in range(TRIES):
        measured = run(main)
        wrong = [name for name, said in measured.items() if not is_right(name, said)]
        if not wrong:
            break
    assert (len(measured) >= 32, wrong) == (True, [])
