"""The scenarios. Where none says otherwise: sixteen tokens, an event each, the first after 100 ms, then one
every 20 ms; a finish, a usage and [DONE] right behind the last."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from twophase.errors import InputError, nearest
from twophase.meter.conformance.scenario import JSON, Scenario, Step, Truth
from twophase.meter.conformance.wording import Wording, encode, usage, word

TOKENS = 16
FIRST_S = 0.1
GAP_S = 0.02
LATE_S = 0.5
SOON_S = 0.01  # a server that has taken the request in, and computed nothing yet
LAST_S = FIRST_S + GAP_S * (TOKENS - 1)

FAILED = Truth(("failed", "rejected"))
TRUNCATED = Truth(("truncated", "failed"))


def time_of(token: int) -> float:
    return round(FIRST_S + GAP_S * token, 4)


def tokens(write: Callable[[int], bytes], first: int = 0, end: int = TOKENS) -> list[Step]:
    """An event for each token, at its time."""
    return [(time_of(each), write(each)) for each in range(first, end)]


def words(w: Wording, end: int = TOKENS) -> list[Step]:
    return tokens(lambda each: w.text(word(each)), end=end)


def close(w: Wording, at_s: float = LAST_S, count: int = TOKENS, reason: str = "length") -> list[Step]:
    return [(at_s, w.finish(reason)), (at_s, w.usage(count)), (at_s, w.done())]


def plain(w: Wording) -> list[Step]:
    return words(w) + close(w)


def role_first(delta: dict[str, object]) -> Callable[[Wording], list[Step]]:
    return lambda w: [(SOON_S, w.delta({"role": "assistant"} | delta)), *plain(w)]


def azure_first_nochoices(w: Wording) -> list[Step]:
    filtered = {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
    return [(SOON_S, w.chunk([], **filtered)), *plain(w)]


def reasoning(name: str, thought: int) -> Callable[[Wording], list[Step]]:
    def steps(w: Wording) -> list[Step]:
        def write(each: int) -> bytes:
            return w.delta({name if each < thought else "content": word(each)}, word(each))

        return tokens(write) + close(w)

    return steps


def tool_calls(w: Wording) -> list[Step]:
    def write(each: int) -> bytes:
        head = {"id": "t1", "type": "function"} if each == 0 else {}
        function = {"name": "weather", "arguments": ""} if each == 0 else {"arguments": "ab"}
        return w.delta({"tool_calls": [{"index": 0, **head, "function": function}]}, word(each))

    return tokens(write) + close(w, reason="tool_calls")


def usage_on_finish_chunk(w: Wording) -> list[Step]:
    return [*words(w), (LAST_S, w.finish(usage=usage(TOKENS))), (LAST_S, w.done())]


def usage_continuous(w: Wording) -> list[Step]:
    return tokens(lambda each: w.text(word(each), usage=usage(each + 1))) + close(w)


def comments(w: Wording) -> list[Step]:
    kept = [(time_of(each) - GAP_S / 2, b": keep-alive\n\n") for each in range(TOKENS)]
    return [(SOON_S, b": ping\n\n"), *sorted(kept + words(w)), *close(w)]


def comment_same_event(w: Wording) -> list[Step]:
    return tokens(lambda each: b": token follows\n" + w.text(word(each))) + close(w)


def usage_null_each(w: Wording) -> list[Step]:
    return tokens(lambda each: w.text(word(each), usage=None)) + close(w)


def worded(before: bytes, after: bytes) -> Callable[[Wording], list[Step]]:
    return lambda w: plain(replace(w, before=before, after=after))


def event_field(w: Wording) -> list[Step]:
    return tokens(lambda each: b"event: message\nid: %d\n" % each + w.text(word(each))) + close(w)


def multiline_data(w: Wording) -> list[Step]:
    def write(each: int) -> bytes:
        return w.text(word(each)).replace(b',"', b',\ndata: "')

    return tokens(write) + close(w)


def split_utf8(w: Wording) -> list[Step]:
    event = w.text("é😀")
    cut = event.index("😀".encode()) + 2
    halves = [
        step
        for each in range(TOKENS)
        for step in ((time_of(each) - 0.005, event[:cut]), (time_of(each), event[cut:]))
    ]
    return halves + close(w)


def split_json(w: Wording) -> list[Step]:
    """The last byte, a line end, is what completes the event."""
    pieces = []
    for each in range(TOKENS):
        event, at_s = w.text(word(each)), time_of(each)
        pieces += [(at_s - 0.01, event[:40]), (at_s - 0.005, event[40:-1]), (at_s, event[-1:])]
    return pieces + close(w)


def same_text(text: str) -> Callable[[Wording], list[Step]]:
    return lambda w: tokens(lambda each: w.text(text)) + close(w)


def empty_texts(is_empty: Callable[[int], bool]) -> Callable[[Wording], list[Step]]:
    return lambda w: tokens(lambda each: w.text("" if is_empty(each) else word(each))) + close(w)


def usage_late(w: Wording) -> list[Step]:
    late_s = LAST_S + LATE_S
    return [*words(w), (LAST_S, w.finish()), (late_s, w.usage(TOKENS)), (late_s, w.done())]


def finish_late(w: Wording) -> list[Step]:
    return words(w) + close(w, LAST_S + LATE_S)


def delta_null(w: Wording) -> list[Step]:
    last = [(LAST_S, w.delta(None, "", "length")), (LAST_S, w.usage(TOKENS)), (LAST_S, w.done())]
    return words(w) + last


def multi_token_4(w: Wording) -> list[Step]:
    def write(each: int) -> bytes:
        return w.text("".join(word(before) for before in range(each - 3, each + 1)))

    return [(time_of(each), write(each)) for each in range(3, TOKENS, 4)] + close(w)


def coalesced(after: bytes) -> Callable[[Wording], list[Step]]:
    """Two events in one write, when the second of them is made."""

    def steps(w: Wording) -> list[Step]:
        w = replace(w, after=after)
        pairs = [(time_of(each), w.text(word(each - 1)) + w.text(word(each))) for each in range(1, TOKENS, 2)]
        return pairs + close(w)

    return steps


def early_eos(w: Wording) -> list[Step]:
    return words(w, 5) + close(w, time_of(4), 5, "stop")


def early_eos_no_usage(w: Wording) -> list[Step]:
    return [*words(w, 5), (time_of(4), w.finish("stop")), (time_of(4), w.done())]


def stall_mid(w: Wording) -> list[Step]:
    stalled = [(at_s + (LATE_S if at_s >= time_of(8) else 0.0), event) for at_s, event in words(w)]
    return stalled + close(w, LAST_S + LATE_S)


def hidden_tokens(w: Wording) -> list[Step]:
    counted = w.usage(80, completion_tokens_details={"reasoning_tokens": 64})
    return [*words(w), (LAST_S, w.finish("stop")), (LAST_S, counted), (LAST_S, w.done())]


def broken_off(w: Wording) -> list[Step]:
    return [*words(w, 8), (time_of(8), b"")]


def error_mid(w: Wording) -> list[Step]:
    error = {"message": "CUDA out of memory", "type": "InternalServerError", "code": 500}
    return [*words(w, 8), (time_of(8), w.event({"error": error})), (time_of(8), w.done())]


def error_first(w: Wording) -> list[Step]:
    error = {"message": "queue full", "type": "overloaded", "code": 503}
    return [(FIRST_S / 2, w.event({"error": error})), (FIRST_S / 2, w.done())]


def error_event(w: Wording) -> list[Step]:
    event = b"event: error\n" + w.event({"message": "engine died", "code": 500})
    return [*words(w, 8), (time_of(8), event)]


def at_once(at_s: float, message: str, code: int) -> Callable[[Wording], list[Step]]:
    return lambda w: [(at_s, encode({"error": {"message": message, "code": code}}))]


SCENARIOS = (
    Scenario("plain", "an event a token", plain),
    Scenario(
        "role_first_empty",
        "a role with an empty text, before anything is computed",
        role_first({"content": ""}),
    ),
    Scenario("role_first_null", "a role with a null text", role_first({"content": None})),
    Scenario("role_first_nocontent", "a role alone", role_first({})),
    Scenario("azure_first_nochoices", "a first chunk without choices", azure_first_nochoices),
    Scenario(
        "reasoning_content",
        "eight tokens of reasoning_content, eight of content",
        reasoning("reasoning_content", 8),
    ),
    Scenario("reasoning", "eight tokens of reasoning, eight of content", reasoning("reasoning", 8)),
    Scenario("reasoning_only", "nothing but reasoning_content", reasoning("reasoning_content", TOKENS)),
    Scenario("tool_calls", "the arguments of a tool call, a token a time", tool_calls),
    Scenario("no_usage", "no usage", lambda w: [*words(w), (LAST_S, w.finish()), (LAST_S, w.done())]),
    Scenario("usage_on_finish_chunk", "the usage on the chunk that finishes", usage_on_finish_chunk),
    Scenario("usage_null_each", "a usage of null on every chunk", usage_null_each),
    Scenario("usage_continuous", "a usage that counts along", usage_continuous),
    Scenario("no_done", "a finish and no [DONE]", lambda w: plain(w)[:-1]),
    Scenario("comments", "comments between events", comments),
    Scenario("comment_same_event", "a comment inside each event", comment_same_event),
    Scenario("crlf", "lines that end in CRLF", worded(b"data: ", b"\r\n\r\n")),
    Scenario("nospace", "no space behind data:", worded(b"data:", b"\n\n")),
    Scenario("event_field", "event: message and an id", event_field),
    Scenario("multiline_data", "JSON over several data lines", multiline_data),
    Scenario("split_utf8", "writes that end within a letter", split_utf8),
    Scenario("split_json", "events in three writes", split_json),
    Scenario("u2028", "a line separator of Unicode in each text", same_text("a\u2028b\x85")),
    Scenario("done_in_content", "texts that look like the stream's end", same_text("data: [DONE]\n\n")),
    Scenario("empty_text_tokens", "every other token without text", empty_texts(lambda each: each % 2 == 1)),
    Scenario("first_token_empty", "the first four tokens without text", empty_texts(lambda each: each < 4)),
    Scenario("usage_late_500ms", "a usage half a second late", usage_late),
    Scenario("finish_late_500ms", "a finish half a second late", finish_late),
    Scenario("delta_null", "a delta of null where it finishes", delta_null),
    Scenario("multi_token_4", "four tokens an event", multi_token_4, Truth(ttft_s=time_of(3))),
    Scenario(
        "crlf_coalesced", "two events a write, in CRLF", coalesced(b"\r\n\r\n"), Truth(ttft_s=time_of(1))
    ),
    Scenario("coalesced_pairs", "two events a write", coalesced(b"\n\n"), Truth(ttft_s=time_of(1))),
    Scenario("early_eos_5", "the end after five tokens", early_eos, Truth(output_tokens=(5,))),
    Scenario(
        "early_eos_no_usage", "the same, without a usage", early_eos_no_usage, Truth(output_tokens=(5,))
    ),
    Scenario(
        "stall_mid",
        "a stall of half a second in the middle",
        stall_mid,
        Truth(tpot_s=(GAP_S * (TOKENS - 1) + LATE_S) / (TOKENS - 1)),
    ),
    Scenario(
        "hidden_tokens",
        "64 tokens of reasoning that are counted and never sent",
        hidden_tokens,
        Truth(output_tokens=(80, 16)),
    ),
    Scenario("error_mid", "an error instead of the ninth token", error_mid, FAILED),
    Scenario("error_first", "an error instead of the first", error_first, FAILED),
    Scenario("error_event", "an event named error", error_event, FAILED),
    Scenario("cut_mid", "a connection reset in the middle", broken_off, TRUNCATED, ending="reset"),
    Scenario("eof_mid", "a body that ends well, and too early", broken_off, TRUNCATED),
    Scenario(
        "json_200_error",
        "HTTP 200 with an error in JSON",
        at_once(0.05, "context length exceeded", 400),
        FAILED,
        content_type=JSON,
    ),
    Scenario(
        "zero_tokens",
        "a finish without a token",
        lambda w: close(w, FIRST_S, 0, "stop"),
        Truth(("empty", "failed")),
    ),
    Scenario(
        "http429",
        "too many requests",
        at_once(0.0, "too many requests", 429),
        Truth(("rejected", "failed")),
        status=429,
        content_type=JSON,
        headers=("Retry-After: 1",),
    ),
    Scenario(
        "http500",
        "an error of the server",
        at_once(0.0, "internal error", 500),
        FAILED,
        status=500,
        content_type=JSON,
    ),
)


def chosen(names: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of these names, all where none is given."""
    known = {each.name for each in SCENARIOS}
    for name in names:
        if name not in known:
            hint = nearest(name, known) or "; --list names them all"
            raise InputError(f"--only {name}: no scenario has that name{hint}")
    return tuple(each for each in SCENARIOS if not names or each.name in names)
