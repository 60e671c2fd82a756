from collections.abc import Callable
from typing import Any

import pytest
from timed_server import timed_server

from twophase.errors import InputError
from twophase.meter.capabilities import Asked, Server, base_url, find_server
from twophase.meter.dialect import OPTIONAL
from twophase.meter.exchange import Pool, run
from twophase.meter.server_kind import kind_by_counters

Refusal = Callable[[str, dict[str, Any]], tuple[int, str] | None]


def found(asked: Asked, count: Callable[[str], int] | None = None) -> Server:
    async def main() -> Server:
        pool = Pool()
        try:
            return await find_server(pool, asked, count)
        finally:
            await pool.close()

    return run(main)


@pytest.mark.parametrize(
    "url",
    [
        "http://h:1",
        "h:1",
        "http://h:1/",
        "http://h:1/v1",
        "http://h:1/v1/chat/completions",
        "h:1/v1/completions/",
    ],
)
def test_every_way_to_name_a_server(url: str) -> None:
    assert base_url(url) == "http://h:1"


def test_a_path_before_v1_stays() -> None:
    assert base_url("https://h/api/openai/v1/") == "https://h/api/openai"
    with pytest.raises(InputError, match="ftp"):
        base_url("ftp://h")


def test_two_probes_find_what_words_and_the_template_cost() -> None:
    with timed_server(ttft_s=0, itl_s=0) as timed:
        server = found(Asked(timed.url))
    assert (server.calibration.tokens_per_word, server.calibration.template_tokens) == (2.0, 11.0)
    assert server.calibration.source == "usage"
    assert (server.target.model, server.target.endpoint, server.longest) == ("fake", "chat", 100_000)
    assert server.dialect.optional == OPTIONAL
    assert server.notes == ()
    assert len(timed.asked) == 2
    assert len({each.prompt.split()[0] for each in timed.asked}) == 2


def test_a_tokenizer_of_ones_own_takes_one_probe() -> None:
    with timed_server(ttft_s=0, itl_s=0) as timed:
        server = found(Asked(timed.url), lambda text: 2 * len(text.split()))
    assert (server.calibration.tokens_per_word, server.calibration.template_tokens) == (2.0, 11.0)
    assert (server.calibration.source, len(timed.asked)) == ("tokenizer", 1)


def test_without_usage_lengths_are_words_and_the_notes_say_so() -> None:
    with timed_server(ttft_s=0, itl_s=0, usage=False) as timed:
        server = found(Asked(timed.url))
    assert server.calibration.source == "none"
    assert "words" in server.notes[0]


def refusing(*names: str, named: bool = True, status: int = 400) -> Refusal:
    def refuse(path: str, body: dict[str, Any]) -> tuple[int, str] | None:
        bad = [name for name in names if name in body]
        return (status, f"unknown field {bad[0]}" if named else "bad request") if bad else None

    return refuse


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("status", [400, 422])
def test_refused_parameters_are_dropped_and_no_others(named: bool, status: int) -> None:
    with timed_server(
        ttft_s=0, itl_s=0, refuse=refusing("ignore_eos", "min_tokens", named=named, status=status)
    ) as timed:
        server = found(Asked(timed.url))
    assert server.dialect.optional == ("stream_options", "temperature")
    assert len([note for note in server.notes if "refuses" in note]) == 2
    assert server.calibration.source == "usage"


def test_the_newer_name_of_the_limit() -> None:
    def refuse(path: str, body: dict[str, Any]) -> tuple[int, str] | None:
        return (400, "use max_completion_tokens, not max_tokens") if "max_tokens" in body else None

    with timed_server(ttft_s=0, itl_s=0, refuse=refuse) as timed:
        assert found(Asked(timed.url)).dialect.limit == "max_completion_tokens"


def test_a_server_without_chat_is_asked_for_completions() -> None:
    def refuse(path: str, body: dict[str, Any]) -> tuple[int, str] | None:
        return (404, "Not Found") if "chat" in path else None

    with timed_server(ttft_s=0, itl_s=0, refuse=refuse) as timed:
        assert found(Asked(timed.url)).target.endpoint == "completions"
        with pytest.raises(InputError, match="no such endpoint"):
            found(Asked(timed.url, endpoint="chat"))


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "--api-key"),
        (403, "--api-key"),
        (429, "takes no requests now"),
        (500, "does not answer"),
        (400, "odd"),
    ],
)
def test_a_server_that_refuses_everything_is_bad_input(status: int, says: str) -> None:
    with (
        timed_server(refuse=lambda path, body: (status, "odd")) as timed,
        pytest.raises(InputError, match=says),
    ):
        found(Asked(timed.url))


def test_nobody_at_home() -> None:
    with timed_server() as timed:
        url = timed.url
    with pytest.raises(InputError, match="no server answers"):
        found(Asked(url))
    with pytest.raises(InputError, match="no server answers"):
        found(Asked("http://name.invalid"))


def test_the_model_is_the_one_asked_for() -> None:
    models = [{"id": "a"}, {"id": "b", "owned_by": "vllm", "max_model_len": 7000}]
    with timed_server(ttft_s=0, itl_s=0, models=models) as timed:
        first, second, other = (found(Asked(timed.url, name)) for name in (None, "b", "bb"))
    assert (first.target.model, second.target.model, other.target.model) == ("a", "b", "bb")
    assert "of 2" in first.notes[0]
    assert (second.longest, second.notes) == (7000, ())
    assert "does not list the model bb; did you mean b?" in other.notes[0]
    assert dict(second.facts)["kind"] == "vLLM"


def test_no_models_listed() -> None:
    with timed_server(ttft_s=0, itl_s=0, models=[]) as timed:
        assert found(Asked(timed.url, "m")).target.model == "m"
        with pytest.raises(InputError, match="--model"):
            found(Asked(timed.url))


def test_headers_and_fields_go_with_every_request() -> None:
    with timed_server(ttft_s=0, itl_s=0) as timed:
        found(Asked(timed.url, headers=(("Authorization", "Bearer k"),), extra=(("top_p", "0.5"),)))
    assert {each.headers["authorization"] for each in timed.asked} == {"Bearer k"}
    assert {each.body["top_p"] for each in timed.asked} == {0.5}


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ('# HELP vllm:x y\nvllm:num_requests_running{engine="0"} 1\n', "vLLM"),
        ("sglang:num_running_reqs 0\n", "SGLang"),
        ("tgi_queue_size 3\n", "TGI"),
        ("llamacpp:n_decode_total 3", "llama.cpp"),
        ("lmdeploy:num_requests_running 1", "LMDeploy"),
        ("trtllm_request_success_total 3", "TensorRT-LLM"),
        ("process_cpu_seconds_total 3\n# vllm: not here", "unknown"),
    ],
)
def test_kinds_by_their_counters(page: str, kind: str) -> None:
    assert kind_by_counters(page) == kind


def test_kind_and_version_from_the_server_itself() -> None:
    pages = {"/version": '{"version": "0.33.0"}', "/metrics": "vllm:num_requests_running 0\n"}
    with timed_server(ttft_s=0, itl_s=0, pages=pages) as timed:
        facts = dict(found(Asked(timed.url)).facts)
    assert (facts["kind"], facts["version"]) == ("vLLM", "0.33.0")
    with timed_server(ttft_s=0, itl_s=0, server="llama.cpp") as timed:
        assert dict(found(Asked(timed.url)).facts)["kind"] == "llama.cpp"
