"""Other meters' numbers for streams of known truth, as they were seen to report them."""

import pytest
from synthetic_replies import reply

from twophase.errors import InputError
from twophase.meter.definitions import TOOLS, project
from twophase.meter.records import Endpoint, Reply, StreamEvent


def means(one: Reply, tool: str, endpoint: Endpoint = "chat") -> dict[str, float | None]:
    return {each.name: each.seconds.mean if each.seconds else None for each in project([one], tool, endpoint)}


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_a_plain_stream_is_the_same_for_all_but_guidellms_tpot(tool: str) -> None:
    found = means(reply(ttft=0.1, itl=0.02, tokens=16), tool)
    assert found["TTFT"] == pytest.approx(0.1)
    assert found["ITL"] == pytest.approx(0.02)
    if tool == "guidellm":
        assert found["TPOT"] == pytest.approx(0.4 / 16)


def test_guidellm_has_ttft_in_tpot() -> None:
    """1 s to the first token, ten tokens 20 ms apart: ours 20 ms, guidellm's (1000 + 180) / 10."""
    one = reply(ttft=1.0, itl=0.02, tokens=10)
    assert one.tpot_s == pytest.approx(0.02)
    assert means(one, "guidellm")["TPOT"] == pytest.approx(0.118)


@pytest.mark.parametrize("tool", ["vllm", "sglang"])
def test_four_tokens_an_event_divide_by_tokens_less_one(tool: str) -> None:
    """Events at 160 … 400 ms: 240 ms / 15 = 16 ms where the server made a token every 20."""
    assert means(reply(ttft=0.16, itl=0.02, tokens=16, group=4), tool)["TPOT"] == pytest.approx(0.016)


def test_sglang_ends_with_the_stream() -> None:
    """Usage 500 ms late: (900 - 100) / 15 = 53.3 ms."""
    one = reply(ttft=0.1, itl=0.02, tokens=16, closed_s=1.9)
    assert means(one, "sglang")["TPOT"] == pytest.approx(0.8 / 15)
    assert means(one, "aiperf")["ITL"] == pytest.approx(0.02)


def test_vllm_completions_counts_the_first_chunk_of_any_kind() -> None:
    """A role chunk at 10 ms: TTFT 10, and (400 - 10) / 15 = 26 ms."""
    plain = reply(ttft=0.1, itl=0.02, tokens=16)
    events = (StreamEvent(1.01, "role", 0.0), *plain.events, StreamEvent(1.4, "finish", 0.0))
    one = reply(ttft=0.1, itl=0.02, tokens=16, events=events, first_event_s=1.01)
    found = means(one, "vllm", "completions")
    assert found["TTFT"] == pytest.approx(0.01)
    assert found["TPOT"] == pytest.approx(0.026)
    assert means(one, "vllm")["TTFT"] == pytest.approx(0.1)


def test_an_empty_first_token_is_missed_by_those_that_look_for_text() -> None:
    plain = reply(ttft=0.1, itl=0.02, tokens=16)
    events = (*(StreamEvent(e.at_s, "empty", 1.0) for e in plain.events[:4]), *plain.events[4:])
    one = reply(ttft=0.1, itl=0.02, tokens=16, events=events)
    assert means(one, "vllm")["TTFT"] == pytest.approx(0.1)
    assert means(one, "guidellm")["TTFT"] == pytest.approx(0.18)


def test_unknown_tool() -> None:
    with pytest.raises(InputError, match="vllm, guidellm, aiperf, sglang"):
        project([], "vlm", "chat")
