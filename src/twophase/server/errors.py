"""Errors as OpenAI words them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
TOO_LONG = "context_length_exceeded"
LONGEST = 600  # letters of a message


class ApiError(Exception):
    """A request that is answered with an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        message = self.message if len(self.message) <= LONGEST else f"{self.message[:LONGEST]} ..."
        return {"error": {"message": message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        # In ASCII: half a character that a client sent is told back to it as it came.
        content = json.dumps(self.body).encode()
        return Response(content, self.status, self.headers, media_type="application/json")


def of_validation(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """From pydantic's list: all that it has against the first field that is wrong."""
    first = [str(each) for each in errors[0]["loc"][1:]]
    if errors[0]["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON: {errors[0]['ctx']['error']}", code="invalid_json")
    if not first:
        return ApiError(400, "the body must be a JSON object, sent as application/json")
    said = [each["msg"] for each in errors if list(map(str, each["loc"][1:2])) == first[:1]]
    told = " or ".join(dict.fromkeys(said))
    path = ".".join(first) if len(said) == 1 else first[0]
    return ApiError(400, f"{path}: {told}", param=first[0], code="invalid_value")
