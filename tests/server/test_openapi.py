"""The document describes what the server does: schemathesis tries out what it says, and what it doesn't."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from serving import Running, running, stub_engine

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def document(server: Running) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twophase.scheduler.compiling.can_compile", lambda: False)
        with running(stub_engine(pass_s=0.0)) as found:
            yield found


READS = ("GET /health", "GET /version", "GET /metrics", "GET /v1/models", "GET /v1/models/{model}")
POSTS = ("POST /v1/completions", "POST /v1/chat/completions", "POST /tokenize", "POST /detokenize")
RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


def test_all_operations_are_tried(document: Any) -> None:
    assert sorted(each.ok().label for each in document.get_all_operations()) == sorted(READS + POSTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "mode", "count"),
    [(each, RIGHT, 4) for each in READS] + [(each, mode, 25) for each in POSTS for mode in (RIGHT, WRONG)],
)
def test_what_the_document_says(document: Any, label: str, mode: GenerationMode, count: int) -> None:
    (operation,) = (each.ok() for each in document.get_all_operations() if each.ok().label == label)

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=operation.as_strategy(generation_mode=mode))
    def tried(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS)

    tried()


@pytest.mark.slow
def test_no_slot_is_stuck_after_all_that(server: Running) -> None:
    server.until(lambda: server.service.idle)
    assert server.held_blocks == 0


def test_it_describes_streams_and_errors(server: Running) -> None:
    found = server.http.get("/openapi.json").json()
    answers = found["paths"]["/v1/chat/completions"]["post"]["responses"]
    assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
    assert {"400", "401", "404", "413", "429", "500", "503"} <= set(answers)
    assert "422" not in answers
