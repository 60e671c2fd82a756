"""Slots come free at once, whatever becomes of their requests."""

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from serving import Running, running, stub_engine

from twophase.cost.pass_ import Pass
from twophase.engine.sampling import Sampling, TokenLogprobs
from twophase.scheduler.request import PassOutcome
from twophase.server.asking import of_chat
from twophase.server.protocol import ChatRequest
from twophase.server.running import DrainingServer
from twophase.server.standin import StandIn


class Gated(StandIn):
    """Each pass waits to be let through, and is counted; some raise."""

    def __init__(self) -> None:
        super().__init__(lambda pass_: 0.0, range(1000), 16)
        self.gate = threading.Semaphore(0)
        self.passes = 0
        self.raising: set[int] = set()  # first tokens of prompts whose passes raise

    def run(self, pass_: Pass) -> PassOutcome:
        assert self.gate.acquire(timeout=20)
        self.passes += 1
        if any(self.first[span.sequence] in self.raising for span in pass_.spans):
            raise RuntimeError("a matrix has gone")
        return super().run(pass_)

    def begin(self, sequence: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        super().begin(sequence, prompt_ids, sampling)
        self.first = {**getattr(self, "first", {}), sequence: prompt_ids[0]}

    def let(self, passes: int) -> None:
        self.gate.release(passes)


def ask(server: Running, **more: object) -> httpx.Response:
    body = {"prompt": [7, 8, 9], "max_tokens": 4} | more
    return server.http.post("/v1/completions", json=body)


def test_who_hangs_up_is_gone_before_the_next_pass() -> None:
    gated = Gated()
    with running(stub_engine(gated)) as server:
        for stream in (True, False):
            with httpx.Client(base_url=server.url) as client:
                body = {"prompt": [1] * 40, "max_tokens": 500, "n": 2, "stream": stream}
                if stream:
                    gated.let(3)
                    with client.stream("POST", "/v1/completions", json=body) as answer:
                        lines = answer.iter_lines()
                        next(lines)
                        server.until(lambda: gated.passes == 3)
                    seen = 3
                else:
                    seen = gated.passes
                    with suppress(httpx.ReadTimeout):
                        client.post("/v1/completions", json=body, timeout=1.0)
                server.until(lambda: server.service.snapshot().running == 2)
            # the pass under way is its last
            server.until(lambda: len(server.service._inbox) == 1)
            gated.let(1)
            server.until(lambda: server.service.idle)
            assert server.held_blocks == 0
            assert gated.passes == seen + 1
        counters = server.service.snapshot().counters
        assert (counters.ended["abort"], counters.ended["length"]) == (4, 0)


def test_who_waits_in_the_queue_may_hang_up_too() -> None:
    gated = Gated()
    with running(stub_engine(gated, max_sequences=1)) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, server)
        server.until(lambda: server.service.snapshot().running == 1)
        with suppress(httpx.ReadTimeout):
            server.http.post("/v1/completions", json={"prompt": "a"}, timeout=1.0)
        server.until(lambda: len(server.service._inbox) == 2)  # it came, and it went
        gated.let(4)
        assert first.result().json()["usage"]["completion_tokens"] == 4
        server.until(lambda: server.service.idle)
        assert gated.passes == 4


def test_a_full_queue_refuses_at_once() -> None:
    gated = Gated()
    with (
        running(stub_engine(gated, max_sequences=2), max_queue=3) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        taken = []
        for count in range(1, 6):  # two run, three wait
            taken.append(pool.submit(ask, server))
            server.until(lambda count=count: _here(server) == count)
        for n in (1, 4):
            refused = ask(server, n=n)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json()["error"]["code"] == "queue_full"
        assert gated.passes == 0
        gated.let(100)
        assert [each.result().status_code for each in taken] == [200] * 5
        assert ask(server, n=5).status_code == 200  # an idle server takes as many as run and wait
        assert ask(server, n=6).status_code == 400
        page = server.http.get("/metrics").text
        assert 'admission_rejections_total{engine="0",model_name="stub",reason="queue_full"} 2.0' in page


def _here(server: Running) -> int:
    now = server.service.snapshot()
    return now.running + now.waiting


def test_without_a_queue_seats_are_still_taken() -> None:
    with running(stub_engine(), max_queue=0) as server:
        for _ in range(3):
            assert ask(server, n=8).status_code == 200


def test_a_pass_that_raises_fails_its_requests_and_no_other() -> None:
    gated = Gated()
    gated.raising = {13}
    with running(stub_engine(gated, max_sequences=1)) as server, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, server, prompt=[7])]
        server.until(lambda: _here(server) == 1)
        asked.append(pool.submit(ask, server, prompt=[13] * 100))
        server.until(lambda: _here(server) == 2)
        asked.append(pool.submit(ask, server, prompt=[9]))
        server.until(lambda: _here(server) == 3)
        gated.let(100)
        answers = [each.result() for each in asked]
        assert [answer.status_code for answer in answers] == [200, 500, 200]
        error = answers[1].json()["error"]
        assert "RuntimeError: a matrix has gone" in error["message"]
        assert error["type"] == "server_error"
        server.until(lambda: server.service.idle)
        assert server.held_blocks == 0


def test_a_stream_that_fails_midway_says_so_and_is_not_done() -> None:
    gated = Gated()
    with running(stub_engine(gated)) as server:
        gated.let(2)
        body = {"prompt": [13], "max_tokens": 9, "stream": True}
        lines = []
        with server.http.stream("POST", "/v1/completions", json=body) as answer:
            for line in answer.iter_lines():
                if line:
                    lines.append(line.removeprefix("data: "))
                if len(lines) == 2:
                    gated.raising = {13}
                    gated.let(1)
        assert "a matrix has gone" in json.loads(lines[-1])["error"]["message"]
        assert len(lines) == 3


def test_books_that_are_lost_are_begun_anew(monkeypatch) -> None:
    gated = Gated()
    with running(stub_engine(gated)) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, server)
        server.until(lambda: _here(server) == 1)
        scheduler = server.service._loop._scheduler
        monkeypatch.setattr(scheduler, "commit", lambda *arguments: 1 / 0)
        monkeypatch.setattr(scheduler, "abandon", lambda *arguments: 1 / 0)
        gated.let(1)
        assert asked.result().status_code == 500
        gated.let(4)
        assert ask(server).status_code == 200
        assert server.service.idle
        assert server.service.snapshot().counters.prefix_queries == 2 * 3  # of both books


def test_who_has_ended_has_an_answer_though_the_next_one_raises(monkeypatch) -> None:
    gated = Gated()
    with running(stub_engine(gated)) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, server, prompt=[7], max_tokens=2)
        server.until(lambda: server.service.snapshot().running == 1)
        second = pool.submit(ask, server, prompt=[8], logprobs=1)
        server.until(lambda: _here(server) == 2)
        monkeypatch.setattr(gated, "logprobs", lambda sequence: 1 / 0)
        gated.let(2)
        assert (first.result().status_code, second.result().status_code) == (200, 500)


class Drafting(StandIn):
    """Every draft holds, and each token has its own log-probability."""

    def __init__(self) -> None:
        super().__init__(lambda pass_: 0.0, range(1000), 16, prefix_cache=False)

    def run(self, pass_: Pass) -> PassOutcome:
        kept = {
            span.sequence: [self._next(self._fillers[span.sequence]) for _ in range(span.logit_rows)]
            for span in pass_.spans
        }
        return PassOutcome(kept, [], 0.0, drafts=dict.fromkeys(kept, 3))

    def _logprobs(self, token: int, count: int) -> TokenLogprobs:
        return TokenLogprobs(-float(token), ())


def test_a_stop_string_amid_drafts_leaves_each_token_its_own_logprob() -> None:
    with running(stub_engine(Drafting())) as server:
        more = {"max_tokens": 12, "temperature": 0, "logprobs": 0, "return_token_ids": True}
        whole = ask(server, **more).json()["choices"][0]
        for tokens in range(1, 10):
            stop = whole["text"][5 * tokens - 5 : 5 * tokens]
            cut = ask(server, **more, stop=stop).json()["choices"][0]
            ids = whole["token_ids"][:tokens]
            assert cut["token_ids"] == ids
            assert cut["logprobs"]["token_logprobs"] == [-token for token in ids]


def test_what_raises_as_it_is_taken_in_leaves_nothing_behind(monkeypatch) -> None:
    gated = Gated()
    with running(stub_engine(gated)) as server:
        monkeypatch.setattr(gated, "prompt_keys", lambda sequence: 1 / 0)
        assert ask(server, n=2).status_code == 500
        server.until(lambda: server.service.idle)
        assert not gated._fillers
        assert server.service.snapshot().counters.refused["never_fits"] == 0


class Panic(BaseException):
    """As what Rust raises."""


@pytest.mark.parametrize("where", ["begin", "run"])
def test_when_the_engine_has_died_nobody_waits_for_it(monkeypatch, where: str) -> None:
    def panic(*arguments: object) -> None:
        raise Panic("index out of bounds")

    gated = Gated()
    with running(stub_engine(gated)) as server, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, server)]
        server.until(lambda: server.service.snapshot().running == 1)
        monkeypatch.setattr(gated, where, panic)
        asked.append(pool.submit(ask, server))
        server.until(lambda: server.service.stopped or _here(server) == 2)
        gated.let(1)
        for each in asked:
            assert each.result().status_code == 500
            assert "Panic: index out of bounds" in each.result().json()["error"]["message"]
        later = (ask(server), server.http.get("/health"))
        assert [(each.status_code, each.json()["error"]["code"]) for each in later] == [
            (503, "engine_stopped")
        ] * 2
        assert server.service.idle


def test_who_is_being_taken_in_counts_once(monkeypatch) -> None:
    gated, doors = Gated(), threading.Semaphore(5)
    begin = gated.begin

    def slow(*arguments) -> None:
        assert doors.acquire(timeout=20)
        begin(*arguments)

    monkeypatch.setattr(gated, "begin", slow)
    with running(stub_engine(gated)) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, server, n=8, max_tokens=1)
        server.until(lambda: server.service._loop.waiting == 5)
        assert _here(server) == 8
        doors.release(3)
        gated.let(1)
        assert asked.result().status_code == 200


def test_health_and_metrics_answer_while_a_pass_runs() -> None:
    gated = Gated()
    with running(stub_engine(gated)) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, server)
        server.until(lambda: _here(server) == 1)
        assert server.http.get("/health").status_code == 200
        assert "num_requests_running" in server.http.get("/metrics").text
        gated.let(4)
        assert asked.result().status_code == 200


def test_who_reads_slowly_holds_up_nobody() -> None:
    with running(stub_engine(pass_s=0.0)) as server:
        body = {"prompt": [7], "n": 8, "max_tokens": 100, "stream": True, "logprobs": 20}
        with server.http.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.until(lambda: server.service.idle, 20)  # though most of it waits to be read
            assert server.held_blocks == 0
            rest = [line for line in lines if line.startswith("data: {")]
        assert len(rest) == 8 * 100 - 1


def test_a_drain_lets_the_running_finish_and_takes_no_more() -> None:
    gated = Gated()
    with running(stub_engine(gated)) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, server)
        server.until(lambda: _here(server) == 1)
        server.service.drain()
        refused = ask(server)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert server.http.get("/health").status_code == 503
        gated.let(4)
        assert asked.result().status_code == 200


def test_who_is_still_here_at_the_end_is_told() -> None:
    gated = Gated()
    with running(stub_engine(gated)) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, server)
        server.until(lambda: _here(server) == 1)
        server.service.stop(0.0)
        gated.let(1)
        assert (asked.result().status_code, asked.result().json()["error"]["code"]) == (503, "shutting_down")


def test_a_chat_without_a_template_begins_with_bos() -> None:
    """A model's own template writes it; the plain lines leave it to the tokenizer."""
    asked: list[bool] = []

    class Spy:
        def encode(self, text: str, add_bos: bool = True) -> list[int]:
            asked.append(add_bos)
            return [5, 6]

        eos_ids = frozenset[int]()

    body = ChatRequest.model_validate({"messages": [{"role": "user", "content": "a"}]})
    for has_bos in (True, False):
        engine = replace(stub_engine(), tokenizer=Spy(), template_has_bos=has_bos)
        asyncio.run(of_chat(body, engine, 8))
    assert asked == [False, True]


def test_a_drain_leaves_the_time_that_is_left_to_slow_readers() -> None:
    class Idle:
        idle, draining = True, True

        def stop(self, patience_s: float) -> None:
            pass

    server = DrainingServer(FastAPI(), Idle(), 20.0)
    server._wait()
    assert server.should_exit and 15 <= server.config.timeout_graceful_shutdown <= 20
