import json

from twophase.meter.dialect import OPTIONAL, Dialect, notes_of, without_named
from twophase.meter.encoding import first_call, next_call
from twophase.meter.prompts import Talk, Turn

SAID = (("system", "be brief"), ("user", "hé"))


def test_a_chat_body_asks_for_a_stream_with_usage_and_a_fixed_length() -> None:
    body = json.loads(Dialect("m").body(SAID, 9))
    assert body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hé"}]
    assert (body["model"], body["stream"], body["max_tokens"], body["min_tokens"]) == ("m", True, 9, 9)
    assert body["ignore_eos"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert Dialect("m").path == "/v1/chat/completions"


def test_a_completion_body_has_a_prompt() -> None:
    dialect = Dialect("m", "completions", optional=(), extra=(("top_p", "0.5"),))
    assert json.loads(dialect.body(SAID, 9)) == {
        "model": "m",
        "prompt": "be brief hé",
        "max_tokens": 9,
        "stream": True,
        "top_p": 0.5,
    }
    assert dialect.path == "/v1/completions"


def test_what_a_refusal_names_is_left_out_and_said() -> None:
    smaller = without_named(Dialect("m"), "Unrecognized request argument supplied: ignore_eos, min_tokens")
    assert smaller is not None
    assert smaller.optional == ("stream_options", "temperature")
    assert [note.split(",")[0] for note in notes_of(smaller)] == [
        "the server refuses ignore_eos",
        "the server refuses min_tokens",
    ]
    renamed = without_named(Dialect("m"), "Use 'max_completion_tokens' instead of 'max_tokens'.")
    assert renamed is not None
    assert (renamed.limit, renamed.optional) == ("max_completion_tokens", OPTIONAL)
    assert json.loads(renamed.body(SAID, 5))["max_completion_tokens"] == 5


def test_a_refusal_of_something_else_drops_nothing() -> None:
    assert without_named(Dialect("m"), "the model m does not exist") is None
    assert without_named(Dialect("m", optional=()), "ignore_eos") is None
    assert notes_of(Dialect("m")) == []


def test_later_turns_carry_what_was_said_before() -> None:
    talk = Talk((Turn("one", 1, 4), Turn("two", 9, 5)), (("system", "all"),))
    call = first_call(talk, 6, Dialect("m"), "p")
    assert [each["content"] for each in json.loads(call.body)["messages"]] == ["all", "one"]
    assert (call.number, call.max_tokens, call.prompt_tokens, call.point, call.turn_of) == (
        6,
        4,
        1,
        "p",
        None,
    )
    after = next_call(talk, ("well",), call, Dialect("m"))
    assert after is not None
    assert [(each["role"], each["content"]) for each in json.loads(after.body)["messages"]] == [
        ("system", "all"),
        ("user", "one"),
        ("assistant", "well"),
        ("user", "two"),
    ]
    assert (after.number, after.max_tokens, after.point, after.turn_of) == (7, 5, "p", 6)
    assert next_call(talk, ("well", "so"), after, Dialect("m")) is None


def test_half_a_surrogate_does_not_stop_a_run() -> None:
    assert json.loads(Dialect("m").body((("user", "a\ud800b"),), 1))["messages"][0]["content"] == "a?b"
