"""The OpenAPI document says what the server really answers."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from twophase.server.answers import ErrorAnswer

TOLD = {
    400: "The request can't be done as it stands; the message says why.",
    401: "No valid API key.",
    404: "No such model.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not sent as application/json.",
    429: "The queue is full; Retry-After says when to try again.",
    500: "The engine failed while it ran this request.",
    503: "The server is shutting down, or its engine has failed for good.",
}


def fails(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorAnswer, "description": TOLD[status]} for status in statuses}


def document_of(app: FastAPI, keyed: bool) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["responses"].pop("422", None)  # FastAPI's own; here it is 400
                if keyed and (path.startswith("/v1/") or "requestBody" in operation):
                    operation["security"] = [{"key": []}]
        for unused in ("HTTPValidationError", "ValidationError"):
            document.get("components", {}).get("schemas", {}).pop(unused, None)
        if keyed:
            document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = document
    return app.openapi_schema
