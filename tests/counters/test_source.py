"""Pages over HTTP: what is asked, what errors say, whose keys go where."""

import socket
import threading
import time
from contextlib import suppress

import pytest
from fake_servers import serving

from twophase.counters.fetch import Target, target
from twophase.counters.source import find_page, is_url, read_file, scrape
from twophase.errors import InputError

PAGE = "vllm:prompt_tokens_total 1\n"


def test_a_base_means_its_metrics() -> None:
    asked = []

    def answer(path, query, headers):
        asked.append((path, headers.get("Authorization")))
        return (200, PAGE) if path == "/metrics" else (404, "")

    with serving(answer) as url:
        for given in (url, f"{url}/", f"{url}/v1", f"{url}/metrics"):
            found = find_page(target(given, {"Authorization": "Bearer k"}, 5))
            assert found.url == f"{url}/metrics"
        read, _ = scrape(found)
        assert read.page is not None and read.page.time_s == pytest.approx(time.time(), abs=5)
    assert set(asked) == {("/metrics", "Bearer k")}


def test_a_password_in_the_url_becomes_a_header_and_is_never_shown() -> None:
    found = target("http://me:se%20cret@localhost:1/metrics", {}, 1)
    assert found.url == "http://localhost:1/metrics"
    assert found.headers == {"Authorization": "Basic bWU6c2UgY3JldA=="}
    with pytest.raises(InputError) as refused:
        scrape(found)
    assert "cret" not in str(refused.value) and "connection refused" in str(refused.value)
    with pytest.raises(InputError) as refused:
        target("http://me:secret@ho st", {}, 1)
    assert "secret" not in str(refused.value)


def test_keys_do_not_follow_to_another_host() -> None:
    seen = []

    def other(path, query, headers):
        seen.append(path)
        return 200, PAGE

    with (
        serving(other) as elsewhere,
        serving(lambda path, query, headers: (302, f"{elsewhere}/metrics")) as url,
        pytest.raises(InputError, match="redirects to"),
    ):
        scrape(Target(f"{url}/metrics", {"Authorization": "Bearer k"}))
    assert not seen


def test_a_redirect_on_the_same_host_is_followed() -> None:
    with serving(
        lambda path, query, headers: (200, PAGE) if path == "/metrics/" else (307, "/metrics/")
    ) as url:
        assert scrape(Target(f"{url}/metrics"))[0].page is not None


@pytest.mark.parametrize(
    ("status", "text", "owner", "said"),
    [
        (
            501,
            '{"error":{"message":"Start it with `--metrics`"}}',
            "",
            "start it as `llama-server --metrics`",
        ),
        (404, "", "sglang", "start it with --enable-metrics"),
        (404, "", "vllm", "--disable-log-stats"),
        (404, "", "library", "Ollama has no counters"),
        (404, "", "lmdeploy", "LMDeploy: start api_server with --enable-metrics"),
        (404, "", "someone", "SGLang: start it with --enable-metrics; llama.cpp: start it as"),
        (401, "", "", "a key is needed: give --api-key or --header"),
        (500, "it broke", "", "status 500: it broke"),
    ],
)
def test_the_flag_that_turns_counters_on(status: int, text: str, owner: str, said: str) -> None:
    def answer(path, query, headers):
        if path == "/v1/models" and owner:
            return 200, f'{{"data":[{{"id":"m","owned_by":"{owner}"}}]}}'
        return status, text

    with serving(answer) as url, pytest.raises(InputError) as refused:
        find_page(Target(url, timeout_s=5))
    assert said in str(refused.value)


@pytest.mark.parametrize(("there", "path"), [(True, "/prometheus/metrics"), (False, "/metrics")])
def test_tensorrt_llm_has_its_counters_elsewhere(there: bool, path: str) -> None:
    def answer(path, query, headers):
        if path == "/metrics":
            return 200, "[]"
        return (200, "trtllm_prompt_tokens_total 1\n") if there else (404, "")

    with serving(answer) as url:
        assert find_page(Target(url)).url == f"{url}{path}"


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    def answer(path, query, headers):
        time.sleep(0.6)
        return 200, PAGE

    with serving(answer) as url, pytest.raises(InputError, match=r"no answer within 0.1 s"):
        scrape(Target(f"{url}/metrics", timeout_s=0.1))


def test_a_page_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twophase.counters.fetch.LARGEST", 1000)
    with (
        serving(lambda path, query, headers: (200, PAGE * 100)) as url,
        pytest.raises(InputError, match="sends more than"),
    ):
        scrape(Target(f"{url}/metrics"))


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999", "http://x:0", "http://a b"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(InputError, match="http://host:8000"):
        target(url, {}, 1)


def test_files(tmp_path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_file(str(tmp_path / "none"))
    with pytest.raises(InputError, match="is a directory"):
        read_file(str(tmp_path))
    assert is_url("http://x") and not is_url("a/page.txt")


def test_a_head_that_comes_a_letter_at_a_time_is_not_waited_for() -> None:
    """Each letter comes within the limit; the answer does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def dribble() -> None:
            held, _ = server.accept()
            with held, suppress(OSError):
                for letter in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100:
                    held.sendall(bytes([letter]))
                    time.sleep(0.05)

        threading.Thread(target=dribble, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
        with pytest.raises(InputError, match=r"no answer within 0.2 s"):
            scrape(Target(url, timeout_s=0.2))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "closed the connection before its answer was whole"),
        (b"SSH-2.0-OpenSSH_9\r\n", "speaks no HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "closed the connection before"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: /metrics\r\nContent-Length: 0\r\n\r\n",
            "give the engine's own URL",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n\x1f\x8b\x08\x00", "is compressed: unpack it first"),
    ],
)
def test_what_answers_otherwise_is_said(sent: bytes, said: str) -> None:
    """In plain words, not in those of the library beneath."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    held, _ = server.accept()
                    with held:
                        held.recv(10_000)
                        held.sendall(sent)

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
        with pytest.raises(InputError, match=said):
            scrape(Target(url, timeout_s=5))
