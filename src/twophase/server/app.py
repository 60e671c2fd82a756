"""The HTTP surface."""

import time
from collections.abc import Collection
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.responses import Response

from twophase import __version__
from twophase.server import answers
from twophase.server.answering import streamed_answer, whole_answer
from twophase.server.asking import of_chat, of_completion, require_model, text_of, tokens_of
from twophase.server.errors import ApiError, of_validation
from twophase.server.guard import Guard
from twophase.server.metrics import Page
from twophase.server.openapi import document_of, fails
from twophase.server.protocol import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    StreamOptions,
    TokenizeRequest,
)
from twophase.server.service import Service
from twophase.server.writing import Writer

STREAM = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}
GENERATES = STREAM | fails(400, 401, 404, 408, 413, 415, 429, 500, 503)
READS = fails(400, 401, 404, 408, 413, 415)


def new_app(service: Service, *, api_keys: Collection[str], max_body: int, metrics_prefix: str) -> FastAPI:
    engine = service.engine
    app = FastAPI(title="twophase", version=__version__, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, keys=api_keys, max_body=max_body)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)
    app.openapi = lambda: document_of(app, bool(api_keys))  # type: ignore[method-assign]
    page = Page(engine.name, metrics_prefix, engine.facts)
    card = {
        "id": engine.name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "twophase",
        "root": engine.name,
        "parent": None,
        "max_model_len": engine.longest,
    }

    @app.get("/health", response_model=answers.Health, responses=fails(503))
    async def health() -> Any:
        refusal = service.refusal
        if refusal is not None:
            raise ApiError(refusal.status, refusal.message, code=refusal.code)
        return {"status": "ok"}

    @app.get("/version", response_model=answers.Version)
    async def version() -> Any:
        return {"version": __version__}

    @app.get("/metrics", responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}})
    async def metrics() -> Response:
        return Response(page.render(service.snapshot()), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @app.get("/v1/models", response_model=answers.ModelList, responses=fails(401))
    async def models() -> Any:
        return {"object": "list", "data": [card]}

    @app.get("/v1/models/{model:path}", response_model=answers.ModelCard, responses=fails(401, 404))
    async def model(model: str) -> Any:
        require_model(model, engine)
        return card

    @app.post("/v1/completions", response_model=answers.CompletionAnswer, responses=GENERATES)
    async def completions(body: CompletionRequest, request: Request) -> Response:
        require_model(body.model, engine)
        with service.counting_what_never_fits():
            asked = await of_completion(body, engine, service.most_sequences)
        writer = Writer("completion", engine.name, engine.tokenizer, asked)
        writer.echo, writer.with_ids = bool(body.echo), bool(body.return_token_ids)
        return await _answer(writer, body, request)

    @app.post("/v1/chat/completions", response_model=answers.ChatAnswer, responses=GENERATES)
    async def chat(body: ChatRequest, request: Request) -> Response:
        require_model(body.model, engine)
        with service.counting_what_never_fits():
            asked = await of_chat(body, engine, service.most_sequences)
        writer = Writer("chat", engine.name, engine.tokenizer, asked)
        writer.with_ids = bool(body.return_token_ids)
        return await _answer(writer, body, request)

    async def _answer(writer: Writer, body: CompletionRequest | ChatRequest, request: Request) -> Response:
        if body.stream:
            options = body.stream_options or StreamOptions()
            return await streamed_answer(service, writer, request.receive, options)
        return await whole_answer(service, writer, request.receive)

    @app.post("/tokenize", response_model=answers.Tokens, responses=READS)
    async def tokenize(body: TokenizeRequest) -> Any:
        require_model(body.model, engine)
        bos = body.add_special_tokens is not False
        ids = await tokens_of(body.prompt, body.messages, bos, engine)
        return {"count": len(ids), "max_model_len": engine.longest, "tokens": list(ids)}

    @app.post("/detokenize", response_model=answers.Prompt, responses=READS)
    async def detokenize(body: DetokenizeRequest) -> Any:
        require_model(body.model, engine)
        return {"prompt": await text_of(body.tokens, engine)}

    return app


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return of_validation(error.errors()).response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    told = {404: f"there is nothing at {path}", 405: f"{path} does not take {request.method}"}
    message = told.get(error.status_code, str(error.detail))
    return ApiError(error.status_code, message, headers=error.headers).response()


async def _unexpected(request: Request, error: Exception) -> Response:
    return ApiError(500, f"an error in the server: {type(error).__name__}").response()
