"""NLWeb's four responses (answer, elicitation, promise, failure) as JSON with `_meta`, for 0.55 and 0.54 (4, 7.4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.http import JSON, HttpError, note_error_code
from aidre.api.protocols.nlweb.ask_messages import Elicitation, PromiseState
from aidre.engine.errors import AidreError, CollectionMissing, InvalidInput, ModelUnavailable
from aidre.engine.model import Json

logger = logging.getLogger("aidre")

Dialect: TypeAlias = Literal["0.55", "0.54", "legacy"]
VERSION: Final = "0.55"
Code: TypeAlias = Literal[
    "NO_RESULTS",
    "INVALID_QUERY",
    "UNSUPPORTED_FORMAT",
    "UNSUPPORTED_MODE",
    "RATE_LIMITED",
    "INTERNAL_ERROR",
    "TIMEOUT",
    "TOKEN_LIMIT",
    "CANCELLED",
    "UNKNOWN_PROMISE",
    "UNAUTHORIZED",
    "NOT_FOUND",
    "METHOD_NOT_ALLOWED",
    "PAYLOAD_TOO_LARGE",
]
STATUS_BY_CODE: Mapping[Code, int] = {
    "INVALID_QUERY": 400,
    "UNAUTHORIZED": 401,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "PAYLOAD_TOO_LARGE": 413,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
}
"""HTTP status of failures of the request itself. Every other failure is a response to a valid request: 200."""
CODE_BY_STATUS: Mapping[int, Code] = {status: code for code, status in STATUS_BY_CODE.items()} | {
    403: "UNAUTHORIZED",
    408: "TIMEOUT",
}

INTERNAL_ERROR_MESSAGE = "the server failed: try again, or tell the operator the X-Request-Id"


class NlwebFailure(AidreError):
    """A failure response (4.1.4). `status` overrides the HTTP status of the code."""

    kind: ClassVar = "failure"

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(message)
        self.failure_code: Code = code
        self.status = status if status is not None else STATUS_BY_CODE.get(code, 200)
        self.headers = dict(headers or {})
        self.meta: Mapping[str, Json] = meta or {}


def invalid_query(message: str) -> NlwebFailure:
    return NlwebFailure("INVALID_QUERY", message)


@dataclass(frozen=True, slots=True)
class AnswerResponse:
    """An answer (4.1.1). `items` are JSON objects, best first. `content` is the prose of the format `chatgpt_app`; None
    selects the format `conversational_search`."""

    kind: ClassVar = "answer"
    items: Sequence[bytes]
    summary: str | None = None
    content: Sequence[str] | None = None
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElicitationResponse:
    """Questions to the user before an answer (4.1.3)."""

    kind: ClassVar = "elicitation"
    elicitation: Elicitation
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PromiseResponse:
    """A token for an answer that is not ready (4.1.2)."""

    kind: ClassVar = "promise"
    promise: PromiseState
    meta: Mapping[str, Json] = field(default_factory=dict)


Outcome: TypeAlias = AnswerResponse | ElicitationResponse | PromiseResponse | NlwebFailure


def build_meta(outcome: Outcome, dialect: Dialect = VERSION, **more: Json) -> dict[str, Json]:
    """The `_meta` of a response."""
    if dialect == "0.54":
        return {"response_type": outcome.kind.capitalize(), "version": "0.54", **more, **outcome.meta}
    return {"response_type": outcome.kind, "version": VERSION, **more, **outcome.meta}


def render_json(outcome: Outcome, dialect: Dialect = VERSION) -> bytes:
    """The response as JSON."""
    head = b'{"_meta":%b' % orjson.dumps(build_meta(outcome, dialect), default=str)
    if isinstance(outcome, AnswerResponse):
        items = b",".join(render_items(outcome, dialect))
        if outcome.content is None:
            return b'%b,"results":[%b]}' % (head, items)
        return b'%b,"content":%b,"structuredData":[%b]}' % (head, orjson.dumps(build_content(outcome)), items)
    return b"%b,%b" % (head, orjson.dumps(build_body(outcome), default=str)[1:])


def render_items(answer: AnswerResponse, dialect: Dialect = VERSION) -> list[bytes]:
    """The elements of `results`. The summary is the last one, so that a summary that fails leaves no gap in a stream.

    The format `chatgpt_app` has its summary in `content` instead.
    """
    if answer.summary is None or answer.content is not None:
        return list(answer.items)
    summary = {"@type": "Summary" if dialect == "0.54" else "SearchSummary", "text": answer.summary}
    return [*answer.items, orjson.dumps(summary)]


def build_content(answer: AnswerResponse) -> list[dict[str, str]]:
    """The member `content` of the format `chatgpt_app`."""
    return [{"type": "text", "text": text} for text in answer.content or ()]


def build_body(outcome: ElicitationResponse | PromiseResponse | NlwebFailure) -> dict[str, Any]:
    """The members other than `_meta`."""
    match outcome:
        case ElicitationResponse(elicitation):
            return {"elicitation": msgspec.to_builtins(elicitation)}
        case PromiseResponse(promise):
            return {"promise": msgspec.to_builtins(promise)}
        case NlwebFailure():
            return {"error": {"code": outcome.failure_code, "message": outcome.message}}


def respond(outcome: Outcome, dialect: Dialect = VERSION) -> Response:
    """The HTTP response (7.4)."""
    status, headers = 200, {"Cache-Control": "no-store"}
    if isinstance(outcome, PromiseResponse):
        status = 202
    elif isinstance(outcome, NlwebFailure):
        status, headers = outcome.status, headers | outcome.headers
    return Response(render_json(outcome, dialect), status, headers, JSON)


def to_failure(error: AidreError) -> NlwebFailure:
    """Maps an error of the server or the engine to a failure of NLWeb."""
    if isinstance(error, NlwebFailure):
        return error
    if isinstance(error, HttpError):
        fallback: Code = "INVALID_QUERY" if error.status < 500 else "INTERNAL_ERROR"
        code = CODE_BY_STATUS.get(error.status, fallback)
        return NlwebFailure(code, error.message, status=error.status, headers=error.headers)
    if isinstance(error, InvalidInput):
        return invalid_query(error.message)
    if isinstance(error, CollectionMissing):
        return NlwebFailure("NO_RESULTS", "this server has no such site")
    logger.error("%s", error)  # for the operator only: the client gets no details
    headers = {"Retry-After": "30" if isinstance(error, ModelUnavailable) else "5"}
    message = "this cannot be answered at the moment: try again later"
    return NlwebFailure("INTERNAL_ERROR", message, status=503, headers=headers)


def refuse(request: Request, error: AidreError) -> Response:
    """Renders every rejection on NLWeb's routes as a failure, including those of the framework."""
    failure = to_failure(error)
    note_error_code(request, failure.failure_code)
    return respond(failure)
