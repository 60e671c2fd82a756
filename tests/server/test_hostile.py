"""Whatever is sent: the right 4xx, in OpenAI's shape, and the server goes on."""

import json
import socket
from collections.abc import Iterator

import pytest
from serving import Running, running, stub_engine

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twophase.scheduler.compiling.can_compile", lambda: False)
        with running(stub_engine(), max_body=100_000) as found:
            yield found


@pytest.fixture(autouse=True)
def still_serving(server: Running) -> Iterator[None]:
    yield
    answer = server.http.post("/v1/completions", json={"prompt": "a", "max_tokens": 2})
    assert answer.status_code == 200
    assert server.service.idle and server.held_blocks == 0


BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"prompt"',
    b"\xff\xfe",
    b'{"prompt": "\xff"}',
    b'{"prompt": "\\ud800"}',
    b'{"prompt": ["fine", "\\udfff"]}',
    b"[" * 90_000,
    b'{"a":' * 15_000,
    b'{"prompt": ' + b"9" * 5000 + b"}",
    b'{"prompt": [' + b"9" * 30 + b"]}",
    b'{"prompt": "a", "temperature": NaN}',
    b'{"prompt": "a", "temperature": Infinity}',
    b'{"prompt": "a", "temperature": 1e999}',
    b'{"prompt": "a", "max_tokens": 0}',
    b'{"prompt": "a", "max_tokens": 1.5}',
    b'{"prompt": "a", "max_tokens": true}',
    b'{"prompt": "a", "max_tokens": 1e30}',
    b'{"prompt": "a", "n": 129}',
    b'{"prompt": "a", "seed": 99999999999999999999999}',
    b'{"prompt": "a", "stop": ["", "b"]}',
    b'{"prompt": "a", "stop": {"b": 1}}',
    b'{"prompt": "a", "stream": "yes"}',
    b'{"prompt": "a", "stream_options": []}',
    b'{"prompt": "a", "logit_bias": {"\\ud800": 1}}',
    b'{"prompt": "a", "logit_bias": {"-1": 1}}',
    b'{"prompt": "a", "logit_bias": {"1": 1000}}',
    b'{"prompt": "a", "logit_bias": {"\xd9\xa1": 1}}',
    b'{"prompt": "a", "stop_token_ids": [-1]}',
    b'{"prompt": "a", "min_tokens": 17, "max_tokens": 16}',
    b'{"prompt": [], "max_tokens": 1}',
    b'{"prompt": [[]], "max_tokens": 1}',
    b'{"prompt": [1, "a"], "max_tokens": 1}',
    b'{"prompt": [-1], "max_tokens": 1}',
    b'{"prompt": {"a": 1}, "max_tokens": 1}',
]


PATHS = {  # what makes a request that is right but for the field in question
    "/v1/completions": b'"prompt": "a"',
    "/v1/chat/completions": b'"messages": [{"role": "user", "content": "a"}]',
    "/tokenize": b'"prompt": "a"',
    "/detokenize": b'"tokens": [5]',
}


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("path", PATHS)
def test_bodies_that_mean_nothing(server: Running, path: str, body: bytes) -> None:
    field = body.startswith(b'{"prompt": "a", ')
    if field and path in ("/tokenize", "/detokenize"):
        pytest.skip("fields that it does not know are ignored")
    body = body.replace(b'"prompt": "a"', PATHS[path])
    answer = server.http.post(path, content=body, headers=JSON)
    if field:
        assert answer.json()["error"]["param"] in body.decode("utf-8", "replace")
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] and error["type"] == "invalid_request_error"
    assert len(answer.content) < 2000


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "hello",
        [1],
        [{}],
        [{"role": "user"}, {"role": "wizard", "content": "a"}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": [{"type": "input_audio"}]}],
        [{"role": "user", "content": [{"text": "a"}]}],
    ],
)
def test_messages_that_mean_nothing(server: Running, messages: object) -> None:
    answer = server.http.post("/v1/chat/completions", json={"messages": messages})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"


@pytest.mark.parametrize("name", ["messages", "self", "", "a b", "\ud800"])
def test_names_that_no_template_has(server: Running, name: str) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {name: 1}}
    answer = server.http.post("/v1/chat/completions", content=json.dumps(body), headers=JSON)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "chat_template_kwargs")


def test_ids_are_not_decoded_for_nothing(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("it was")

    prompts = {"prompt": [" word"] * 20, "n": 128}
    monkeypatch.setattr(type(server.service.engine.tokenizer), "encode", fail)
    assert server.http.post("/v1/completions", json=prompts).json()["error"]["param"] == "n"
    monkeypatch.setattr(type(server.service.engine.tokenizer), "decode", fail)
    for path, name in (("/v1/completions", "prompt"), ("/detokenize", "tokens")):
        answer = server.http.post(path, json={name: [5] * 2001, "echo": True})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    monkeypatch.undo()


def test_bodies_too_large(server: Running) -> None:
    large = b'{"prompt": "' + b"a" * 100_000 + b'"}'
    assert server.http.post("/v1/completions", content=large, headers=JSON).status_code == 413
    chunks = (large[i : i + 1000] for i in range(0, len(large), 1000))  # no length is told
    assert server.http.post("/v1/completions", content=chunks, headers=JSON).status_code == 413


def test_a_prompt_too_long_is_told_in_numbers(server: Running) -> None:
    for prompt in ([5] * 1999, " word" * 1999):
        answer = server.http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 2})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
        assert "2000 tokens" in error["message"] and "1999 in the prompt" in error["message"]
    told = 'admission_rejections_total{engine="0",model_name="stub",reason="never_fits"}'
    page = server.http.get("/metrics").text
    assert float(page.partition(told)[2].split()[0]) >= 2


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_another_kind_of_body(server: Running, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = server.http.post("/v1/completions", content=b'{"prompt": "a"}', headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (415, "invalid_request_error")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/health", 405),
        ("GET", "/", 404),
        ("GET", "/v1/models/%00%ff", 404),
        ("GET", "/v1/models/../../etc/passwd", 404),
    ],
)
def test_where_nothing_is(server: Running, method: str, path: str, status: int) -> None:
    answer = server.http.request(method, path, headers=JSON, content=b"{}")
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    if status == 405:
        assert answer.headers["allow"]


def test_half_a_request_and_no_request(server: Running) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    for raw in (b"", b"GET", b"\x00" * 1000, b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(raw)
