"""The official client, as people use it."""

import json
from collections.abc import Iterator

import httpx
import openai
import pytest
from serving import Running, running, stub_engine


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twophase.scheduler.compiling.can_compile", lambda: False)
        with running(stub_engine(), api_keys=("right key",)) as found:
            yield found


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="right key", max_retries=0) as found:
        yield found


HELLO = [{"role": "user", "content": "Say something, will you?"}]


def test_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == "stub"
    assert client.models.retrieve("stub").id == "stub"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")


def test_a_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="stub", prompt="one two three", max_tokens=7)
    (choice,) = answer.choices
    assert (choice.finish_reason, len(choice.text)) == ("length", 7 * 5)  # a filler word is a token
    assert answer.usage is not None
    usage = (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens)
    assert usage == (3, 7, 10)


def test_a_stream_is_the_same_text_in_pieces(client: openai.OpenAI) -> None:
    asked = {"model": "stub", "prompt": "one two three", "max_tokens": 9, "temperature": 0}
    whole = client.completions.create(**asked).choices[0]
    pieces = [chunk.choices[0] for chunk in client.completions.create(**asked, stream=True)]
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [piece.finish_reason for piece in pieces] == [None] * 8 + ["length"]


def test_a_chat_stream_begins_with_the_role_and_ends_with_usage(client: openai.OpenAI) -> None:
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            model="stub", messages=HELLO, max_completion_tokens=5, stream=True, stream_options=options
        )
    )
    *said, last = chunks
    assert [chunk.choices[0].delta.role for chunk in said] == ["assistant", None, None, None, None]
    assert all(chunk.choices[0].delta.content for chunk in said)
    assert said[-1].choices[0].finish_reason == "length"
    assert last.choices == []
    assert last.usage is not None and last.usage.completion_tokens == 5
    assert all(chunk.usage is None for chunk in said)
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_with_every_chunk(client: openai.OpenAI) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    stream = client.completions.create(
        model="stub", prompt="a", max_tokens=4, stream=True, stream_options=options
    )
    counts = [chunk.usage.completion_tokens for chunk in stream if chunk.usage is not None]
    assert counts == [1, 2, 3, 4, 4]


def test_choices_are_told_apart_and_share_the_prompt(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="stub", prompt=["one two", "three four five"], n=3, max_tokens=4, seed=5, temperature=1
    )
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert len({choice.text for choice in answer.choices}) == 6
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 24)
    second = client.completions.create(
        model="stub", prompt="one two", max_tokens=4, seed=6, temperature=1
    )  # the seed of a choice is the request's and its number
    assert second.choices[0].text == answer.choices[1].text


def test_a_known_beginning_is_told_in_usage(client: openai.OpenAI) -> None:
    prompt = "again " * 50 + "and again"
    for cached in (0, 48):  # whole blocks of 16, and never the whole prompt
        usage = client.completions.create(model="stub", prompt=prompt, max_tokens=2).usage
        assert usage is not None and usage.prompt_tokens_details is not None
        assert usage.prompt_tokens_details.cached_tokens == cached


def test_n_choices_read_their_prompt_once(client: openai.OpenAI, server: Running) -> None:
    def computed() -> float:
        prefill, _ = server.service.snapshot().phases
        return prefill.tokens

    before = computed()
    client.completions.create(model="stub", prompt="shared " * 64, n=4, max_tokens=2)
    assert computed() - before < 2 * 128  # of 4 x 128 tokens


def test_token_ids_in_and_out(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="stub", prompt=[1, 2, 3], max_tokens=3, extra_body={"return_token_ids": True}, temperature=0
    )
    (choice,) = answer.choices
    ids = choice.model_extra["token_ids"]  # type: ignore[index]
    assert len(ids) == 3
    listed = client.completions.create(model="stub", prompt=[[1, 2, 3], [4]], max_tokens=3, temperature=0)
    assert listed.choices[0].text == choice.text


def test_echo(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="stub", prompt="before", max_tokens=1, echo=True)
    assert answer.choices[0].text.startswith("before ")
    assert len(answer.choices[0].text) == len("before") + 5
    of_ids = client.completions.create(model="stub", prompt=[3, 5], max_tokens=1, echo=True)
    assert len(of_ids.choices[0].text) == 3 * 5


def test_logprobs(client: openai.OpenAI) -> None:
    chat = client.chat.completions.create(
        model="stub", messages=HELLO, max_tokens=3, logprobs=True, top_logprobs=2
    ).choices[0]
    assert chat.logprobs is not None and chat.logprobs.content is not None
    assert "".join(token.token for token in chat.logprobs.content) == chat.message.content
    assert all(len(token.top_logprobs) == 2 for token in chat.logprobs.content)
    plain = client.completions.create(model="stub", prompt="a", max_tokens=3, logprobs=1).choices[0]
    assert plain.logprobs is not None
    assert plain.logprobs.tokens is not None and "".join(plain.logprobs.tokens) == plain.text
    assert plain.logprobs.text_offset == [0, 5, 10]


def test_a_stop_string_ends_the_text_before_it(client: openai.OpenAI) -> None:
    asked = {"model": "stub", "prompt": "one", "max_tokens": 10, "temperature": 0}
    whole = client.completions.create(**asked).choices[0].text
    stop = whole[13:18]  # from within a token into the next
    cut = client.completions.create(**asked, stop=["never", stop])
    assert cut.choices[0].text == whole[: whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"
    assert cut.usage is not None and cut.usage.completion_tokens == 4
    with_it = client.completions.create(
        **asked, stop=stop, extra_body={"include_stop_str_in_output": True, "top_k": -1}
    )
    assert with_it.choices[0].text == cut.choices[0].text + stop
    streamed = client.completions.create(**asked, stop=stop, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == cut.choices[0].text


def test_a_stop_token_ends_it_silently(client: openai.OpenAI) -> None:
    asked = {"model": "stub", "prompt": "one", "max_tokens": 10, "temperature": 0}
    body = {"return_token_ids": True}
    whole = client.completions.create(**asked, extra_body=body).choices[0]
    third = whole.model_extra["token_ids"][2]  # type: ignore[index]
    cut = client.completions.create(**asked, extra_body={"stop_token_ids": [third]}).choices[0]
    assert (cut.text, cut.finish_reason) == (whole.text[:10], "stop")
    later = client.completions.create(**asked, extra_body={"stop_token_ids": [third], "min_tokens": 4})
    assert later.choices[0].text[:10] == whole.text[:10]
    assert len(later.choices[0].text) > 10


@pytest.mark.parametrize(
    ("kind", "asked", "said"),
    [
        (openai.BadRequestError, {"max_tokens": 3000}, "maximum context length is 2000 tokens"),
        (openai.BadRequestError, {"temperature": -1}, "temperature"),
        (openai.BadRequestError, {"max_tokens": "many"}, "max_tokens"),
        (openai.BadRequestError, {"n": 10**9}, "n: "),
        (openai.BadRequestError, {"n": 128}, "128 sequences"),
        (openai.BadRequestError, {"prompt": [[1, 10**6]]}, "1000000 is not in the vocabulary of 1000"),
        (openai.BadRequestError, {"prompt": ""}, "no tokens"),
        (openai.BadRequestError, {"logit_bias": {"x": 1}}, "logit_bias"),
        (openai.BadRequestError, {"best_of": 2}, "best_of"),
        (openai.NotFoundError, {"model": "another"}, "`another` does not exist"),
    ],
)
def test_errors_are_the_clients_own(
    client: openai.OpenAI, kind: type[openai.APIStatusError], asked: dict[str, object], said: str
) -> None:
    with pytest.raises(kind, match=said) as error:
        client.completions.create(**{"model": "stub", "prompt": "one"} | asked)  # type: ignore[call-overload]
    assert error.value.type


@pytest.mark.parametrize(
    "asked",
    [
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"response_format": {"type": "json_object"}},
        {"modalities": ["text", "audio"]},
    ],
)
def test_what_is_not_supported_is_named(client: openai.OpenAI, asked: dict[str, object]) -> None:
    with pytest.raises(openai.BadRequestError, match=next(iter(asked))):
        client.chat.completions.create(model="stub", messages=HELLO, **asked)  # type: ignore[call-overload]


def test_content_in_parts(client: openai.OpenAI) -> None:
    parts = [{"type": "text", "text": "Say something, "}, {"type": "text", "text": "will you?"}]
    messages = [{"role": "user", "content": parts}]
    split = client.chat.completions.create(model="stub", messages=messages, temperature=0)
    whole = client.chat.completions.create(model="stub", messages=HELLO, temperature=0)
    assert split.choices[0].message.content == whole.choices[0].message.content
    picture = [{"type": "image_url", "image_url": {"url": "data:"}}]
    with pytest.raises(openai.BadRequestError, match="image_url"):
        client.chat.completions.create(model="stub", messages=[{"role": "user", "content": picture}])


def test_a_conversation_finds_its_own_beginning(client: openai.OpenAI) -> None:
    question = {"role": "user", "content": "word " * 40}
    first = client.chat.completions.create(model="stub", messages=[question], max_tokens=40)
    answer = {"role": "assistant", "content": first.choices[0].message.content}
    usage = client.chat.completions.create(model="stub", messages=[question, answer, question]).usage
    assert first.usage is not None and usage is not None and usage.prompt_tokens_details is not None
    # all but the last token of the answer was computed, in whole blocks
    known = first.usage.total_tokens - 1
    assert usage.prompt_tokens_details.cached_tokens == known // 16 * 16


def test_without_the_key_nothing_but_health_and_metrics(server: Running) -> None:
    for key in ("wrong", "right", "right key ü"):
        headers = {b"Authorization": f"Bearer {key}".encode()}
        for path in ("/v1/models", "/v1/nothing"):
            answer = server.http.get(path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert server.http.post("/v1/completions", json={"prompt": "a"}).status_code == 401
    assert server.http.post("/tokenize", json={"prompt": "a"}).status_code == 401
    for path in ("/health", "/metrics", "/version", "/openapi.json"):
        assert server.http.get(path).status_code == 200


def test_tokens_of_a_text_and_back(server: Running) -> None:
    with httpx.Client(base_url=server.url, headers={"Authorization": "Bearer right key"}) as client:
        text = client.post("/detokenize", json={"tokens": [1, 2, 999]}).json()["prompt"]
        found = client.post("/tokenize", json={"prompt": text}).json()
        assert found == {"count": 3, "max_model_len": 2000, "tokens": [1, 2, 999]}
        chat = client.post("/tokenize", json={"messages": HELLO}).json()
        assert chat["count"] > 3
        assert json.loads(client.post("/tokenize", json={}).text)["error"]["param"] == "prompt"
