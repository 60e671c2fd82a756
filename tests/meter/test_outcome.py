"""The one outcome of a request, whatever its server did."""

import pytest
from hand_made import DONE, FINISH, SENT_S, chat, event, ms, reply, text, tpot, ttft, usage

from twophase.meter.records import Closing


def test_no_token_is_no_success() -> None:
    assert reply((100, FINISH + usage(0) + DONE)).outcome == "empty"
    assert reply((100, chat({"role": "assistant"}) + DONE)).outcome == "empty"
    assert reply().outcome == "empty"
    kept = reply((100, FINISH + usage(16, completion_tokens_details={"reasoning_tokens": 16}) + DONE))
    assert (kept.outcome, kept.output_tokens, kept.hidden_tokens, ttft(kept)) == ("empty", 16, 16, None)


def test_what_comes_late_does_not_count_as_generating() -> None:
    found = reply((100, text("a")), (120, text("b")), (620, FINISH), (900, usage(2) + DONE))
    assert (tpot(found), ms((found.last_token_s or 0) - SENT_S), ms((found.closed_s or 0) - SENT_S)) == (
        20,
        120,
        900,
    )


@pytest.mark.parametrize("closing", ["complete", "eof", "reset", "timeout", "malformed"])
def test_an_end_in_the_middle_is_truncation(closing: Closing) -> None:
    found = reply((100, text("a")), (120, text("b")), closing=closing)
    assert (found.outcome, found.output_tokens, ttft(found), tpot(found)) == ("truncated", 2, 100.0, 20.0)
    assert found.reason


@pytest.mark.parametrize("closing", ["complete", "eof", "reset", "timeout", "cancelled"])
@pytest.mark.parametrize("end", [FINISH, DONE, DONE.rstrip(), FINISH.rstrip()])
def test_a_finish_or_done_is_an_end_however_the_connection_went(closing: Closing, end: bytes) -> None:
    """The format drops an event without its blank line; a server that ends so has still said it."""
    assert reply((100, text("a")), (120, text("b")), (120, end), closing=closing).outcome == "finished"


def test_half_an_event_is_dropped() -> None:
    found = reply((100, text("a")), (120, text("b")[:-9]), closing="eof")
    assert (found.outcome, found.output_tokens) == ("truncated", 1)


@pytest.mark.parametrize(
    ("closing", "outcome"), [("refused", "failed"), ("timeout", "failed"), ("cancelled", "cancelled")]
)
def test_no_response(closing: Closing, outcome: str) -> None:
    found = reply(status=0, closing=closing, error="that is why")
    assert (found.outcome, found.reason, found.ttft_s) == (outcome, "that is why", None)


def test_a_cancelled_stream_and_one_that_never_began() -> None:
    assert reply((100, text("a")), closing="cancelled").outcome == "cancelled"
    assert reply(closing="timeout", error="no end within 3 s").outcome == "failed"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (event({"error": {"message": "CUDA out of memory", "code": 500}}), "CUDA out of memory (500)"),
        (event({"error": "no room", "error_type": "overloaded"}), "no room (overloaded)"),
        (event({"object": "error", "message": "queue full", "code": 503}), "queue full (503)"),
        (b"event: error\n" + event({"message": "died"}), "died"),
        (b"event: error\ndata: no JSON\n\n", "no JSON"),
        (event({"error": {}, "object": "error"}), "an error without a message"),
    ],
)
def test_an_error_in_the_stream(wrong: bytes, reason: str) -> None:
    found = reply((100, text("a")), (120, text("b")), (140, wrong + DONE))
    assert (found.outcome, found.reason) == ("failed", reason)
    assert (found.output_tokens, tpot(found)) == (2, 20.0)  # kept, as far as it came


def test_an_error_of_null_is_none() -> None:
    assert reply((100, text("a", error=None)), (120, FINISH + DONE)).outcome == "finished"


def test_a_generation_that_the_server_gave_up() -> None:
    assert reply((100, text("a")), (120, chat({}, "abort") + DONE)).outcome == "failed"


@pytest.mark.parametrize(
    ("status", "body", "outcome", "reason"),
    [
        (429, b'{"error":{"message":"slow down"}}', "rejected", "HTTP 429: slow down"),
        (503, b"", "rejected", "HTTP 503"),
        (400, b'{"detail":[{"loc":["body","ignore_eos"],"msg":"unknown"}]}', "failed", "HTTP 400: unknown"),
        (
            404,
            b'{"object":"error","message":"no model x","code":404}',
            "failed",
            "HTTP 404: no model x (404)",
        ),
        (502, b"<html>bad\n gateway</html>", "failed", "HTTP 502: <html>bad gateway</html>"),
        (200, b'{"error":{"message":"too long","code":400}}', "failed", "too long (400)"),
        (200, b'{"ok":true}', "failed", 'HTTP 200 with JSON that is no completion: {"ok":true}'),
        (200, b"<html>", "failed", "the reply is neither an event stream nor JSON: <html>"),
    ],
)
def test_what_is_no_stream(status: int, body: bytes, outcome: str, reason: str) -> None:
    found = reply((5, body), status=status, content_type="text/plain")
    assert (found.outcome, found.reason) == (outcome, reason)


def test_a_redirection_and_a_time_to_wait_are_told() -> None:
    moved = reply(status=307, headers=(("location", "https://there/v1"),))
    assert (moved.outcome, moved.reason) == ("failed", "HTTP 307: moved to https://there/v1; give that URL")
    assert reply((5, b"{}"), status=429, retry_after="7").reason == "HTTP 429: {}; retry after 7"
