"""Replies read: outcomes, times and token counts worked out by hand. Numbers are those of public reports."""

import gzip
import json

import pytest
from hand_made import DONE, FINISH, SENT_S, chat, chosen, counted, event, reply, text, tpot, ttft, usage
from hypothesis import given
from hypothesis import strategies as st


def test_a_plain_reply() -> None:
    found = reply((100, text(" a")), (120, text(" b")), (140, text(" c") + FINISH + usage(3) + DONE))
    assert (found.outcome, found.reason) == ("finished", "")
    assert (ttft(found), tpot(found)) == (100.0, 20.0)
    assert (found.output_tokens, found.hidden_tokens, found.first_tokens) == (3, 0, 1)
    assert (found.prompt_tokens, found.finish_reason, found.token_source) == (7, "stop", "usage_share")
    assert [each.kind for each in found.events] == ["content"] * 3 + ["finish", "usage", "done"]
    assert [each.tokens for each in found.events] == [1, 1, 1, 0, 0, 0]
    assert (found.number, found.point, found.due_s) == (3, "p", SENT_S - 0.001)


def test_a_role_is_no_token_and_its_lead_is_kept() -> None:
    """A server that sends the role with the first chunk of a prefill and text 1.3 s later."""
    found = reply(
        (900, chat({"role": "assistant", "content": ""})), (2200, text("a")), (2220, text("b") + DONE)
    )
    assert (ttft(found), tpot(found), found.output_tokens) == (2200.0, 20.0, 2)
    assert found.first_event_s == SENT_S + 0.9


def test_a_role_on_every_chunk_hides_no_token() -> None:
    role = {"role": "assistant"}
    reads = [(10, chat(role | {"content": ""})), (100, chat(role | {"content": "a"}))]
    reads += [(120, chat(role | {"content": ""})), (140, chat(role | {"content": "b"}) + FINISH + DONE)]
    found = reply(*reads)
    assert (ttft(found), tpot(found), found.output_tokens) == (100.0, 20.0, 3)


def test_an_empty_role_is_none() -> None:
    """Some servers send role "" and a usage of nothing with every chunk."""
    none = {"total_tokens": 0}
    reads = [(100 + 20 * each, chat({"role": "", "content": "x"}, usage=none)) for each in range(4)]
    found = reply(*reads, (160, FINISH + usage(4) + DONE))
    assert (ttft(found), tpot(found), found.output_tokens) == (100.0, 20.0, 4)


def test_tokens_without_text_count_from_the_first() -> None:
    reads = [(100 + 20 * each, text("" if each < 2 else "x")) for each in range(4)]
    found = reply(*reads, (160, FINISH + usage(4) + DONE))
    assert (ttft(found), tpot(found), found.output_tokens) == (100.0, 20.0, 4)


def test_an_empty_text_that_the_server_did_not_count_is_no_token() -> None:
    """A completions endpoint has no role: its acknowledgement is an empty text, one more than it counts."""
    reads = [(10, chosen(text=""))] + [(100 + 20 * each, chosen(text=" x")) for each in range(4)]
    found = reply(*reads, (160, chosen("length", text="") + usage(4) + DONE), endpoint="completions")
    assert (ttft(found), tpot(found), found.output_tokens) == (100.0, 20.0, 4)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_is_generated_and_the_answer_comes_after(name: str) -> None:
    found = reply(
        (100, chat({name: "hm"})), (120, chat({name: "so", "content": None})), (140, text("4") + DONE)
    )
    assert (ttft(found), tpot(found), found.output_tokens) == (100.0, 20.0, 3)
    assert found.first_answer_s == SENT_S + 0.14
    assert [each.kind for each in found.events] == ["reasoning", "reasoning", "content", "done"]


def test_reasoning_said_under_two_names_is_said_once() -> None:
    found = reply(
        (100, chat({"reasoning_content": "hm", "reasoning": "hm"})),
        (120, text("4") + FINISH + usage(4) + DONE),
    )
    assert [each.tokens for each in found.events[:2]] == [2.0, 2.0]


def test_tool_calls_are_tokens_from_their_name_on() -> None:
    def call(function: dict[str, str]) -> bytes:
        return chat(
            {"role": "assistant", "content": None, "tool_calls": [{"index": 0, "function": function}]}
        )

    found = reply(
        (100, call({"name": "f", "arguments": ""})),
        (120, call({"arguments": "{"})),
        (140, call({"arguments": "}"}) + DONE),
    )
    assert (found.outcome, ttft(found), tpot(found), found.output_tokens) == ("finished", 100.0, 20.0, 3)
    assert found.first_answer_s == SENT_S + 0.1


def test_parts_of_text_and_of_thought() -> None:
    thought = {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}
    found = reply(
        (100, chat(thought)), (120, chat({"content": [{"type": "text", "text": "4"}]}) + FINISH + DONE)
    )
    assert (found.output_tokens, ttft(found)) == (2, 100.0)


def test_tokens_of_an_event_by_their_ids() -> None:
    reads = [(100, chosen(delta={"content": "abc"}, token_ids=[1, 2, 3]))]
    reads += [(160, chosen(delta={"content": "d"}, token_ids=[4, 5, 6])), (160, FINISH + DONE)]
    found = reply(*reads)
    assert (found.output_tokens, found.first_tokens, tpot(found)) == (6, 3, 20.0)
    assert found.token_source == "token_ids"


def test_tokens_of_an_event_by_log_probabilities_though_its_text_is_empty() -> None:
    def named(text: str, tokens: int, at_once: str | None = None) -> bytes:
        listed = [{"token": "?", "logprob": -0.1}] * tokens
        return chosen(at_once, delta={"content": text}, logprobs={"content": listed})

    found = reply((100, named("", 1)), (120, named("é", 1)), (160, named("x", 2, "length") + usage(4) + DONE))
    assert (ttft(found), tpot(found), found.output_tokens) == (100.0, 20.0, 4)
    assert found.token_source == "logprobs"


def test_tokens_of_an_event_by_a_usage_that_counts_along() -> None:
    """Speculative decoding: four, one, and three tokens."""
    steps = [(100, 4), (120, 5), (180, 8)]
    found = reply(*((at, text("x", usage=counted(tokens))) for at, tokens in steps), (180, FINISH + DONE))
    assert [each.tokens for each in found.events] == [4, 1, 3, 0, 0]
    assert (found.output_tokens, tpot(found), found.token_source) == (8, 20.0, "continuous_usage")


def test_a_usage_stated_before_the_tokens_is_not_their_number() -> None:
    first = chat({"role": "assistant", "content": ""}, usage=counted(1))
    found = reply((10, first), *((100 + 20 * each, text("x")) for each in range(5)), (180, FINISH + DONE))
    assert (found.output_tokens, tpot(found), found.token_source) == (5, 20.0, "events")


def test_several_tokens_an_event_share_the_final_usage_by_their_text() -> None:
    reads = [(160, text(" the of and to")), (240, text(" in that was his")), (320, text(" a b c d"))]
    found = reply(*reads, (320, FINISH + usage(12) + DONE))
    assert [each.tokens for each in found.events[:3]] == [4, 4, 4]
    assert (ttft(found), tpot(found), found.output_tokens) == (160.0, 20.0, 12)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=12), st.integers(1, 200))
def test_shares_add_up_to_the_final_usage(texts: list[str], tokens: int) -> None:
    reads = [(100.0 + 20 * each, text(words)) for each, words in enumerate(texts)]
    found = reply(*reads, (400, chat({}, "length") + usage(tokens) + DONE))
    assert found.output_tokens == tokens
    assert sum(each.tokens for each in found.events) == pytest.approx(tokens)
    assert found.hidden_tokens == 0


def test_events_of_one_read_are_of_one_instant() -> None:
    """Sixty milliseconds' three tokens flushed together: 20 ms a token, and not the gaps between events."""
    burst = text(" a") + text(" b") + text(" c")
    found = reply((100, burst), (160, burst), (220, burst), (280, burst + FINISH + usage(12) + DONE))
    assert (found.first_tokens, tpot(found)) == (3, 20.0)


def test_a_burst_that_the_network_cut_is_one_too() -> None:
    burst = [text(" a"), text(" b"), text(" c")]
    reads = [(at + 0.1 * part, burst[part]) for at in (100, 160, 220, 280) for part in range(3)]
    found = reply(*reads, (281, FINISH + usage(12) + DONE))
    assert found.first_tokens == 3
    assert tpot(found) == pytest.approx(20.0, abs=0.1)


def test_the_end_token_is_the_finish_where_the_server_counts_it() -> None:
    """Five texts and six tokens: the end-of-text token, made one step later, has a finish and no text."""
    texts = [(100 + 20 * each, text(" x")) for each in range(5)]
    found = reply(*texts, (200, FINISH + usage(6) + DONE))
    assert (tpot(found), found.output_tokens, found.hidden_tokens) == (20.0, 6, 0)
    held = reply(*texts, (680, FINISH + usage(6) + DONE))  # half a second is no step: it was never sent
    assert (tpot(held), held.output_tokens, held.hidden_tokens) == (20.0, 6, 1)


def test_reasoning_that_was_never_sent_is_hidden_and_not_divided_by() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 64}}
    reads = [(100 + 20 * each, text(" x")) for each in range(16)]
    found = reply(*reads, (400, FINISH + usage(80, **details) + DONE))
    assert (tpot(found), found.output_tokens, found.hidden_tokens) == (20.0, 80, 64)


def test_reasoning_that_was_sent_is_not_hidden() -> None:
    """512 reasoning tokens through a parser, and a usage of as many."""
    details = {"completion_tokens_details": {"reasoning_tokens": 512}}
    reads = [(100 + 20 * each, chat({"reasoning_content": " w w"})) for each in range(256)]
    found = reply(*reads, (5200, FINISH + usage(512, **details) + DONE))
    assert (found.output_tokens, found.hidden_tokens, found.outcome) == (512, 0, "finished")
    assert tpot(found) == 10.0


def test_one_token_has_a_ttft_and_no_tpot() -> None:
    found = reply((100, text("a") + FINISH + usage(1) + DONE))
    assert (found.outcome, ttft(found), tpot(found)) == ("finished", 100.0, None)


def test_a_reply_that_came_at_once_has_no_ttft() -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "a b"}, "finish_reason": "length"}]}
    found = reply((400, json.dumps(body | {"usage": counted(12)}).encode()), content_type="application/json")
    assert (found.outcome, found.reason) == ("finished", "not streamed: TTFT and TPOT need a stream")
    assert (found.ttft_s, found.tpot_s, found.output_tokens) == (None, None, 12)
    assert found.last_token_s == SENT_S + 0.4


def test_a_stream_of_another_content_type_is_still_one() -> None:
    found = reply((100, text("a")), (120, text("b") + FINISH + DONE), content_type="application/json")
    assert (found.outcome, ttft(found), tpot(found)) == ("finished", 100.0, 20.0)


def test_a_stream_that_was_compressed_all_the_same() -> None:
    stream = gzip.compress(text("a") + FINISH + DONE)
    found = reply((100, stream[:20]), (120, stream[20:]), headers=(("content-encoding", "gzip"),))
    assert (found.outcome, found.output_tokens, ttft(found)) == ("finished", 1, 120.0)
    damaged = reply((100, b"\x1f\x8b" + bytes(50)), headers=(("content-encoding", "gzip"),))
    assert damaged.outcome == "failed" and "damaged" in damaged.reason
    strange = reply((100, stream), headers=(("content-encoding", "br"),))
    assert strange.outcome == "failed" and "compressed as br" in strange.reason


def test_cached_tokens_under_their_names() -> None:
    for more in ({"prompt_tokens_details": {"cached_tokens": 5}}, {"prompt_cache_hit_tokens": 5}):
        assert reply((100, text("a")), (100, FINISH + usage(1, **more) + DONE)).cached_tokens == 5
    assert reply((100, text("a")), (100, FINISH + usage(1) + DONE)).cached_tokens is None


def test_usage_in_odd_places() -> None:
    in_choice = chosen("stop", delta={}, usage=None).replace(
        b'"delta"', b'"usage": {"completion_tokens": 4}, "delta"'
    )
    aside = event({"choices": [], "x_groq": {"usage": counted(4)}})
    for last in (in_choice, aside):
        assert reply((100, text("a b")), (140, text("c d")), (140, last + DONE)).output_tokens == 4


def test_times_of_the_server_in_seconds() -> None:
    last = event(
        {"choices": [], "usage": counted(1, queue_time=0.25), "timings": {"prompt_ms": 12.5, "prompt_n": 7}}
    )
    found = reply((100, text("a") + FINISH + last + DONE))
    assert dict(found.server_times) == {"prompt_s": 0.0125, "queue_time_s": 0.25}


def test_nothing_after_done_is_generated() -> None:
    found = reply((100, text("a")), (120, text("b") + FINISH + DONE + text("c") + usage(2)))
    assert (found.output_tokens, tpot(found)) == (2, 20.0)


def test_texts_that_are_parsed_and_texts_that_are_found_agree() -> None:
    """A text without escapes is taken from between the bytes that stood around the one before."""
    plain = [text(word) for word in ("aa", "bb", "cc")]
    texts = [*plain, text('d"d'), text("e\\e"), text("é"), text(""), text("\u2028"), text("bb", usage=None)]
    found = reply(*((100 + 20 * at, each) for at, each in enumerate(texts)), (300, FINISH + DONE))
    assert [each.kind for each in found.events[:9]] == ["content"] * 6 + ["empty"] + ["content"] * 2


KEYS = [
    "choices",
    "delta",
    "message",
    "content",
    "text",
    "reasoning_content",
    "tool_calls",
    "function",
    "role",
]
KEYS += ["arguments", "finish_reason", "usage", "completion_tokens", "completion_tokens_details", "timings"]
KEYS += ["prompt_tokens_details", "cached_tokens", "error", "code", "logprobs", "token_ids", "prompt_ms"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["stop", "error"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(st.tuples(VALUES, st.sampled_from([b"", b"event: error\n", b"\xff"])), max_size=5))
def test_any_json_is_read(bodies: list[tuple[object, bytes]]) -> None:
    reads = [(100.0, before + event(body)) for body, before in bodies]
    found = reply(*reads, (120, DONE))
    assert found.outcome in ("finished", "failed", "empty")
    assert sum(each.tokens for each in found.events) <= found.output_tokens + 1e-6


@given(VALUES, st.sampled_from([200, 400, 429]))
def test_any_json_that_comes_at_once_is_read(body: object, status: int) -> None:
    found = reply((100, json.dumps(body).encode()), status=status, content_type="application/json")
    assert found.outcome in ("finished", "failed", "rejected", "empty")


@given(st.binary(max_size=200))
def test_any_bytes_are_read(body: bytes) -> None:
    assert reply((100, body), closing="eof").outcome in ("truncated", "failed", "empty", "finished")


def test_lists_in_lists_in_lists() -> None:
    def texts(depth: int) -> bytes:
        return b'{"choices":[{"delta":{"content":' + b"[" * depth + b"]" * depth + b"}}]}"

    def errors(depth: int) -> bytes:
        return b'{"error":' * depth + b"1" + b"}" * depth

    for body in (texts(900), texts(90_000), errors(900), errors(90_000)):
        assert reply((100, b"data: " + body + b"\n\n"), (120, DONE)).outcome in ("empty", "failed")
        assert reply((100, body)).outcome == "failed"
        assert reply((100, body), status=400).outcome == "failed"
