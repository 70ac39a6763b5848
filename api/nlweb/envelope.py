"""The envelope of NLWeb: what an /ask can come to, as documents with `_meta`, in 0.55 and as 0.54 said it (4, 7.4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import orjson
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.refusals import Refusal
from aidre.api.wire import JSON, note_refusal
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
STATUS: Mapping[Code, int] = {
    "INVALID_QUERY": 400,
    "UNAUTHORIZED": 401,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "PAYLOAD_TOO_LARGE": 413,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
}
"""Of failures of the request; those of its subject are an answer like any other: 200."""
CODES: Mapping[int, Code] = {status: code for code, status in STATUS.items()} | {403: "UNAUTHORIZED", 408: "TIMEOUT"}

FAILED = "the server failed: try again, or tell the operator the X-Request-Id"


class NlwebFailure(AidreError):
    """A failure response (4.1.4). `status` is given where it is not that of the code."""

    def __init__(
        self,
        failure: Code,
        message: str,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(message)
        self.failure: Code = failure
        self.status = status if status is not None else STATUS.get(failure, 200)
        self.headers = dict(headers or {})
        self.meta: Mapping[str, Json] = meta or {}


def invalid(message: str) -> NlwebFailure:
    return NlwebFailure("INVALID_QUERY", message)


@dataclass(frozen=True, slots=True)
class Answered:
    """`items` are JSON objects, best first. `content` is what a ChatGPT app reads; without it the format is
    conversational search."""

    items: Sequence[bytes]
    summary: str | None = None
    content: Sequence[str] | None = None
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Elicited:
    """What is asked back (4.1.3)."""

    text: str
    questions: Sequence[Mapping[str, Json]]
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Promised:
    """An answer that comes later (4.1.2)."""

    token: str
    progress: float | None = None
    estimated_time: int | None = None
    message: str | None = None
    meta: Mapping[str, Json] = field(default_factory=dict)


Outcome: TypeAlias = Answered | Elicited | Promised | NlwebFailure


def response_type(outcome: Outcome) -> str:
    match outcome:
        case Answered():
            return "answer"
        case Elicited():
            return "elicitation"
        case Promised():
            return "promise"
        case NlwebFailure():
            return "failure"


def meta_of(outcome: Outcome, dialect: Dialect = VERSION, **more: Json) -> dict[str, Json]:
    """The `_meta` of a response."""
    return _meta(response_type(outcome), outcome.meta, dialect, more)


def _meta(kind: str, meta: Mapping[str, Json], dialect: Dialect, more: Mapping[str, Json]) -> dict[str, Json]:
    if dialect == "0.54":
        return {"response_type": kind.capitalize(), "version": "0.54", **more, **meta}
    return {"response_type": kind, "version": VERSION, **more, **meta}


def document(outcome: Outcome, dialect: Dialect = VERSION) -> bytes:
    """The whole response as JSON."""
    head = b'{"_meta":%b' % orjson.dumps(meta_of(outcome, dialect), default=str)
    if isinstance(outcome, Answered):
        items = b",".join(all_items(outcome, dialect))
        if outcome.content is None:
            return b'%b,"results":[%b]}' % (head, items)
        return b'%b,"content":%b,"structuredData":[%b]}' % (head, orjson.dumps(prose_of(outcome)), items)
    return b"%b,%b" % (head, orjson.dumps(body_of(outcome), default=str)[1:])


def all_items(answered: Answered, dialect: Dialect = VERSION) -> list[bytes]:
    """The items as they stand in the array: the summary comes last, so that one that fails leaves no gap in a stream.

    A ChatGPT app has its summary in `content`.
    """
    if answered.summary is None or answered.content is not None:
        return list(answered.items)
    return [*answered.items, summary_item(answered.summary, dialect)]


def summary_item(text: str, dialect: Dialect = VERSION) -> bytes:
    return orjson.dumps({"@type": "Summary" if dialect == "0.54" else "SearchSummary", "text": text})


def prose_of(answered: Answered) -> list[dict[str, str]]:
    """The `content` of a ChatGPT app."""
    return [{"type": "text", "text": text} for text in answered.content or ()]


def body_of(outcome: Elicited | Promised | NlwebFailure) -> dict[str, Any]:
    """What stands beside `_meta`."""
    match outcome:
        case Elicited(text, questions):
            return {"elicitation": {"text": text, "questions": list(questions)}}
        case Promised():
            known = {
                "token": outcome.token,
                "estimated_time": outcome.estimated_time,
                "message": outcome.message,
                "progress": outcome.progress,
            }
            return {"promise": {name: value for name, value in known.items() if value is not None}}
        case NlwebFailure():
            return {"error": {"code": outcome.failure, "message": outcome.message}}


def respond(outcome: Outcome, dialect: Dialect = VERSION) -> Response:
    """The response over HTTP (7.4)."""
    status, headers = 200, {"Cache-Control": "no-store"}
    if isinstance(outcome, Promised):
        status = 202
    elif isinstance(outcome, NlwebFailure):
        status, headers = outcome.status, headers | outcome.headers
    return Response(document(outcome, dialect), status, headers, JSON)


def failure_of(error: AidreError) -> NlwebFailure:
    """An error of the house as a failure of NLWeb."""
    if isinstance(error, NlwebFailure):
        return error
    if isinstance(error, Refusal):
        fallback: Code = "INVALID_QUERY" if error.status < 500 else "INTERNAL_ERROR"
        code = CODES.get(error.status, fallback)
        return NlwebFailure(code, error.message, status=error.status, headers=error.headers)
    if isinstance(error, InvalidInput):
        return invalid(error.message)
    if isinstance(error, CollectionMissing):
        return NlwebFailure("NO_RESULTS", "nothing is known of this site")
    logger.error("%s", error)  # what went wrong inside is the operator's business
    retry = {"Retry-After": "30" if isinstance(error, ModelUnavailable) else "5"}
    message = "this cannot be answered at the moment: try again later"
    return NlwebFailure("INTERNAL_ERROR", message, status=503, headers=retry)


def refuse(request: Request, error: AidreError) -> Response:
    """The failure form of NLWeb for whatever is refused on its routes, also by the framework."""
    failure = failure_of(error)
    note_refusal(request, failure.failure)
    return respond(failure)
