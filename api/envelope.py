"""The envelope of AIDRE: its two representations, its errors, its answers to GET."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from aidre.api.refusals import NotAcceptable, Refusal
from aidre.api.wire import (
    AIDRE_JSON,
    JSON,
    PROBLEM_JSON,
    accept_of,
    http_date,
    listed_quality,
    not_modified,
    note_refusal,
    quality,
    request_id,
)
from aidre.engine.errors import (
    AidreError,
    CollectionMissing,
    DimensionMismatch,
    GenerationMissing,
    InvalidInput,
    InvalidVector,
    ModelUnavailable,
    SpaceMissing,
)

logger = logging.getLogger("aidre")

STATUS: Mapping[type[AidreError], tuple[int, str]] = {
    InvalidInput: (400, "invalid_request"),
    InvalidVector: (422, "invalid_request"),
    DimensionMismatch: (422, "invalid_embedding_dimension"),
    SpaceMissing: (422, "unsupported_embedding_space"),
    CollectionMissing: (404, "not_found"),
    GenerationMissing: (409, "conflict"),
}
UNAVAILABLE = (503, "service_unavailable")


@dataclass(frozen=True, slots=True)
class Variant:
    """One representation of a resource. `mark` tells its ETags from those of the other one."""

    media_type: str
    mark: str


PREFERRED = Variant(AIDRE_JSON, "a")
PLAIN = Variant(JSON, "j")


@dataclass(frozen=True, slots=True)
class Page:
    """What a GET answers with. `updated_at` is RFC 3339, where Last-Modified is sent."""

    body: bytes
    variant: Variant
    etag: str
    cache: str
    updated_at: str | None = None


def refuse(request: Request, error: AidreError) -> Response:
    """The error envelope (10, 17); merged with problem details (RFC 9457) where the caller prefers those."""
    status, code, message, details, headers = _said(error)
    note_refusal(request, code)
    body: dict[str, Any] = {"error": code, "message": message, "details": details, "request_id": request_id(request)}
    accept = accept_of(request)
    media_type = JSON if quality(accept, AIDRE_JSON) == 0 < quality(accept, JSON) else AIDRE_JSON
    if listed_quality(accept, PROBLEM_JSON) > max(quality(accept, AIDRE_JSON), quality(accept, JSON)) * bool(accept):
        media_type = PROBLEM_JSON
        title = HTTPStatus(status).phrase
        body |= {"type": "about:blank", "title": title, "status": status, "detail": message}
        body["instance"] = f"urn:aidre:request:{body['request_id']}"
    headers = {"Cache-Control": "no-store", "Vary": "Accept", **headers}
    return Response(orjson.dumps(body, default=str), status, headers, media_type)


def _said(error: AidreError) -> tuple[int, str, str, dict[str, Any], dict[str, str]]:
    if isinstance(error, Refusal):
        return error.status, error.code, error.message, error.details, error.headers
    status, code = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), UNAVAILABLE)
    if isinstance(error, ModelUnavailable):
        message = "text queries are unavailable because the embedding model cannot be loaded: send query_vector"
        return status, code, message, {}, {"Retry-After": "30"}
    if status == UNAVAILABLE[0]:
        logger.error("%s", error)  # what went wrong on the disk is the operator's business
        return status, code, "this collection cannot be read at the moment: try again later", {}, {"Retry-After": "5"}
    if isinstance(error, DimensionMismatch):
        actual, expected = error.details["actual_dimensions"], error.details["expected_dimensions"]
        message = f"The supplied query vector has length {actual}, but the embedding space requires {expected}."
        return status, code, message, error.details, {}
    return status, code, error.message, error.details, {}


def negotiate(request: Request) -> Variant:
    """The representation that the caller can take, application/aidre+json where that is among them (14.1, 15.3)."""
    accept = accept_of(request)
    if not accept or quality(accept, AIDRE_JSON) > 0:
        return PREFERRED
    if quality(accept, JSON) > 0:
        return PLAIN
    raise NotAcceptable(f"Accept must admit {AIDRE_JSON} or {JSON}")


def cacheable(request: Request, page: Page) -> Response:
    """A response to GET, or 304 where the caller has it already."""
    date = http_date(page.updated_at) if page.updated_at is not None else None
    if date is not None and date[1] > time.time():
        date = None  # publishers may date ahead, Last-Modified may not (RFC 9110, 8.8.2.1)
    headers = {"ETag": page.etag, "Cache-Control": page.cache, "Vary": "Accept"}
    if date is not None:
        headers["Last-Modified"] = date[0]
    if not_modified(request, page.etag, date[1] if date is not None else None):
        return Response(status_code=304, headers=headers)
    return Response(page.body, 200, headers, page.variant.media_type)
